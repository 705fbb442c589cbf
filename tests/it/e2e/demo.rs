//! The demo is what a newcomer sees first: also where nobody names a place for it.

use std::process::{Command, Output};

use super::installation::Installation;

fn assert_ended_as_it_should(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("demo: 2 completed, 1 failed, 1 cancelled, "), "{said}");
    assert!(last.ends_with(" events, verified"), "{said}");
}

fn demo(installation: &Installation) -> Command {
    let mut command = installation.command();
    command.args(["up", "--demo", "--once"]).env("MULTICA_DEMO_PACE", "1");
    command
}

#[test]
fn the_demo_ends_as_it_should_and_proves_its_log() {
    let installation = Installation::new("demo");
    let output =
        demo(&installation).arg("--data-dir").arg(installation.base().join("data")).output().unwrap();
    assert_ended_as_it_should(&output);
}

#[test]
fn the_demo_needs_no_place_named_and_shows_itself_again_where_it_was() {
    let mut installation = Installation::new("demo-default");
    // Root's default lies in the installation's own folder, where no agent may work.
    let own = installation.base().join("system");
    installation.set("MULTICA_TEST_SYSTEM_DIR", &own.display().to_string());
    for _ in 0..2 {
        let output = demo(&installation).output().unwrap();
        assert_ended_as_it_should(&output);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("multica.log") && said.contains("Stopped after "), "{said}");
    }
}
