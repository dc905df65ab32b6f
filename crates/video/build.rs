//! Compiles `src/vpx.c` against the system's libvpx and links that, where there is one. Without it taut builds all the same, and whoever
//! wants an encoder is told what is missing.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/vpx.c");
    let mut build = cc::Build::new();
    build.file("src/vpx.c").warnings(true).extra_warnings(true).cargo_warnings(false);
    let Some(library) = library(&build) else { return missing("libvpx.a") };
    if build.try_compile("taut_vpx").is_err() {
        return missing("vpx/vpx_encoder.h");
    }
    println!("cargo::rustc-link-search=native={}", library.display());
    println!("cargo::rustc-link-lib=static=vpx");
    println!("cargo::rustc-cfg=vpx");
}

/// The folder with the library for the machine that is built for.
fn library(build: &cc::Build) -> Option<std::path::PathBuf> {
    let compiler = build.try_get_compiler().ok()?;
    let output = Command::new(compiler.path()).arg("-print-file-name=libvpx.a").output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    // A name alone: it was not found.
    let path = Path::new(path.trim());
    path.is_file().then(|| path.parent().map(Path::to_owned))?
}

fn missing(what: &str) {
    println!(
        "cargo::warning=there is no {what}: taut will neither encode nor decode video (apt-get install libvpx-dev, and build again)"
    );
}
