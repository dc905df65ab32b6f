//! Every input that ever mattered, again, on every commit.

use std::path::Path;

#[test]
fn the_corpus_is_read_without_panics() {
    for (name, body) in taut_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let files = std::fs::read_dir(&folder).expect("every target has a corpus");
        let mut files: Vec<_> = files.map(|file| file.expect("a readable folder").path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            println!("{}", file.display());
            body(&std::fs::read(&file).expect("a readable file"));
        }
    }
}
