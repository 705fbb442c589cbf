//! The demo is what a newcomer sees first.

use super::installation::Installation;

#[test]
fn the_demo_ends_as_it_should_and_proves_its_log() {
    let installation = Installation::new("demo");
    let data = installation.base().join("data");
    let output = installation
        .command()
        .args(["up", "--demo", "--once", "--data-dir"])
        .arg(&data)
        .env("MULTICA_DEMO_PACE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("demo: 2 completed, 1 failed, 1 cancelled, "), "{said}");
    assert!(last.ends_with(" events, verified"), "{said}");
}
