//! Links the system's libopus, where there is one. Without it taut builds all the same, and whoever wants sound is told what is missing.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    match folder() {
        Some(folder) => {
            println!("cargo::rustc-link-search=native={folder}");
            println!("cargo::rustc-link-lib=static=opus");
            println!("cargo::rustc-cfg=opus");
        }
        None => println!(
            "cargo::warning=there is no libopus.a: taut will neither send nor play sound (apt-get install libopus-dev, and build again)"
        ),
    }
}

/// With the library for the machine that is built for.
fn folder() -> Option<String> {
    let compiler = cc::Build::new().try_get_compiler().ok()?;
    let output = Command::new(compiler.path()).arg("-print-file-name=libopus.a").output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    // A name alone: it was not found. Another system's is not looked for.
    let path = Path::new(path.trim());
    let folder = path.is_file().then(|| path.parent())??;
    var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux").then(|| folder.display().to_string())
}
