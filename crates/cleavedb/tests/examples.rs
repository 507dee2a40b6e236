//! Every example runs to its end. `cargo test -p cleavedb` builds them; `--test examples` alone
//! does only with `--examples`.

use std::path::Path;
use std::process::Command;

#[test]
fn every_example_runs() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let programs = std::env::current_exe().unwrap();
    let programs = programs.ancestors().nth(2).unwrap().join("examples");
    let mut count = 0;
    for source in std::fs::read_dir(sources).unwrap() {
        let source = source.unwrap().path();
        let program = programs.join(source.file_stem().unwrap());
        let ran = Command::new(&program).output();
        let ran = ran.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{}: {told}", program.display());
        count += 1;
    }
    assert!(count > 0);
}
