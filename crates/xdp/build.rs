//! Compiles `bpf/frame_gate.bpf.c`, if there is a clang that can (`CLANG` names another one). Without it taut builds all the
//! same, and attaching a gate says what is missing.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let object = Path::new(&out).join("frame_gate.bpf.o");
    if !has_bpf(&clang) {
        println!(
            "cargo::warning=no clang that knows the target bpf: `taut gate` will not attach (apt-get install clang)"
        );
        std::fs::write(&object, []).expect("OUT_DIR can be written to");
        return;
    }
    let arguments = ["-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"];
    let status = Command::new(&clang)
        .args(arguments)
        .args(["-Wno-unused-parameter", "-c", "bpf/frame_gate.bpf.c", "-o"])
        .arg(&object)
        .status()
        .expect("it answered just now");
    assert!(status.success(), "{clang} cannot compile bpf/frame_gate.bpf.c");
}

fn has_bpf(clang: &str) -> bool {
    let targets = Command::new(clang).arg("--print-targets").output();
    targets.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("bpf "))
}
