//! Rebuilds when an embedded folder gains a file: the embedding macros notice changed files only.

fn main() {
    for folder in ["migrations", "projections", "event-schemas", "src/web/assets"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}
