//! Scenarios in a kernel of their own.

use crate::world::World;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/transports.toml");

#[test]
fn a_session_in_a_kernel_of_its_own_takes_as_long_as_the_simulated_one() {
    let world = World::new("kernel-session");
    let ended =
        world.taut(&format!("run {SCENARIO} --only condition=baseline,transport=UDP,transport=TCP --set teleop.messages=200 --kernel --strict"));
    if ended.err.contains("there is no kernel there") {
        println!("skipped: {}", ended.err.trim());
        return;
    }
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("2 of 2 medians are within"), "{}", ended.out);
}

#[test]
fn what_linux_has_no_qdisc_for_is_refused_by_its_key() {
    let world = World::new("kernel-refused");
    world.write(
        "s.toml",
        "title = \"t\"\nduration = \"1s\"\n[links.wire]\nbetween = [\"a\", \"b\"]\nchain = [{ duplicate = \
                           \"1%\" }]\n[teleop]\noperator = \"a\"\nrobot = \"b\"\n",
    );
    let ended = world.taut("run s.toml --kernel");
    assert_eq!(ended.status, 2);
    assert!(ended.err.contains("links.wire.chain.0.duplicate"), "{}", ended.err);
}
