//! Names the sources a program is built from: their SHA-256 is part of what a parity run records.

use std::path::Path;
use std::{env, fs, io};

use sha2::{Digest as _, Sha256};

fn main() -> io::Result<()> {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&root);
    let mut files = Vec::new();
    // What decides about the bits: the sources, and the versions of everything else.
    for part in ["src", "Cargo.toml", "Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={part}");
        collect(&root.join(part), part, &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for (name, path) in files {
        let digest = hex(&Sha256::digest(fs::read(path)?));
        hash.update(format!("{name}\0{digest}\n"));
    }
    println!("cargo::rustc-env=LAYA_SOURCE_SHA256={}", hex(&hash.finalize()));
    Ok(())
}

/// The files in `path`, which is called `name`; what is not there is left out, as the lock file of a library is.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, std::path::PathBuf)>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            collect(&entry.path(), &format!("{name}/{}", entry.file_name().to_string_lossy()), files)?;
        }
    } else if path.is_file() {
        files.push((name.to_owned(), path.to_owned()));
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
