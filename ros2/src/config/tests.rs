use super::*;

const END: &str = r#"
[operator]
connect = "127.0.0.1:4433"
identity = "operator.key"
trust = "x"
"#;

const ARM: &str = r#"
[[route]]
topic = "/servo"
type = "trajectory_msgs/msg/JointTrajectory"
direction = "to_robot"
moves = true
joints = ["a", "b"]
measured = "/joint_states"
[limits.servo]
a = { position = [-1.0, 1.0], velocity = 0.5 }
b = { position = [-1.0, 1.0], velocity = 0.5 }
"#;

fn parse(text: &str) -> Result<Config, String> {
    // A file of its own for each: tests run side by side.
    let name = format!("taut-ros2-{}-{:?}.toml", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap();
    let config = Config::read(&path);
    std::fs::remove_file(&path).unwrap();
    config
}

fn wrong(text: &str) -> String {
    parse(text).expect_err("it is wrong")
}

#[test]
fn nothing_passes_unless_it_is_listed_and_what_moves_has_limits() {
    assert!(wrong(END).contains("no topic passes"));
    assert_eq!(parse(&format!("{END}{ARM}")).unwrap().routes.len(), 1);
    let opaque = "[[route]]\ntopic = \"/cmd_vel\"\ntype = \"geometry_msgs/msg/TwistStamped\"\ndirection = \"to_robot\"\n";
    let why = wrong(&format!("{END}{opaque}"));
    assert!(why.contains("moves robots") && why.contains(".toml:6:"), "{why}");
    let why = wrong(&format!("{END}{opaque}moves = true\nframe = \"base\"\n"));
    assert!(why.contains("no limits"), "{why}");
}

#[test]
fn errors_name_the_line_and_say_what_to_do() {
    let arm = |from: &str, to: &str| wrong(&format!("{END}{}", ARM.replace(from, to)));
    let why = wrong(&format!("{}{ARM}", END.replace("trust", "watchdogg = \"1s\"\ntrust")));
    assert!(why.contains("unknown field `watchdogg`") && why.contains(".toml:"), "{why}");
    assert!(arm("b = {", "c = {").contains("limits of joint \"b\" are missing"));
    let why = arm("b = {", "c = { position = [0.0, 0.0], velocity = 0.0 }\nb = {");
    assert!(
        why.contains("unknown joint \"c\"") && why.contains("a, b") && why.contains(".toml:14:"),
        "{why}"
    );
    assert!(arm("[\"a\", \"b\"]", "[\"a\", \"a\"]").contains("twice"));
    assert!(arm("measured = \"/joint_states\"", "").contains("`measured` is missing"));
    assert!(arm("moves = true", "moves = true\non_stop = \"zero\"").contains("hold"));
    assert!(arm("moves = true", "moves = true\nkeep = \"reliable\"").contains("newest counts"));
    assert!(arm("[limits.servo]", "[limits.other]").contains("no limits"));
    assert!(arm("\"/servo\"", "\"servo\"").contains("full name"));
    assert!(arm("/msg/", ".").contains("PACKAGE/msg/NAME"));
    assert!(arm("direction = \"to_robot\"", "direction = \"up\"").contains("to_operator"));
    assert!(arm("topic =", "colour = 1\ntopic =").contains("colour"));
    assert!(wrong(ARM).contains("[robot] and [operator]"));
}

#[test]
fn velocities_are_stopped_by_zero_and_places_are_held() {
    let config = parse(&format!("{END}{ARM}")).unwrap();
    let moving = config.routes[0].moving.as_ref().unwrap();
    assert_eq!((moving.on_stop, moving.format.velocity), (OnStop::Hold, false));
    let jog = ARM.replace("trajectory_msgs/msg/JointTrajectory", "control_msgs/msg/JointJog");
    let config = parse(&format!("{END}{jog}")).unwrap();
    let moving = config.routes[0].moving.as_ref().unwrap();
    assert_eq!((moving.on_stop, moving.format.velocity), (OnStop::Zero, true));
    assert!(matches!(&moving.limits, MotionLimits::Joints { ranges, .. } if ranges[1].largest > 0.99));
}

#[test]
fn zenoh_meets_programs_by_the_router_unless_asked_and_directly_on_this_host_alone() {
    let backend = |keys: &str| parse(&format!("{keys}\n{END}{ARM}")).map(|config| config.backend);
    let peers = |keys: &str| match backend(keys) {
        Ok(Backend::Zenoh { peers, .. }) => peers,
        other => panic!("{other:?}"),
    };
    assert_eq!(peers("backend = \"zenoh\""), Peers::ByRouter);
    assert_eq!(
        peers("backend = \"zenoh\"\npeers = \"by_router\"\nrouter = \"tcp/10.0.0.2:7447\""),
        Peers::ByRouter
    );
    assert_eq!(peers("backend = \"zenoh\"\npeers = \"direct\""), Peers::Direct);
    let elsewhere = "backend = \"zenoh\"\npeers = \"direct\"\nrouter = \"tcp/10.0.0.2:7447\"";
    assert!(backend(elsewhere).unwrap_err().contains("of this host"));
    assert!(backend("peers = \"direct\"").unwrap_err().contains("of zenoh"));
    assert!(backend("backend = \"zenoh\"\npeers = \"all\"").unwrap_err().contains("`direct`"));
}

#[test]
fn what_robots_measure_is_live_and_what_is_long_is_not() {
    let route = |kind: &str, more: &str| {
        let route =
            format!("[[route]]\ntopic = \"/a\"\ntype = \"{kind}\"\ndirection = \"to_operator\"\n{more}");
        parse(&format!("{END}{route}"))
            .map(|config| format!("{:?}", config.routes[0].channel()).contains("Feedback"))
    };
    assert_eq!(route("sensor_msgs/msg/JointState", ""), Ok(true));
    assert_eq!(route("sensor_msgs/msg/JointState", "live = false"), Ok(false));
    assert_eq!(route("sensor_msgs/msg/JointState", "alone = true"), Ok(false));
    assert_eq!(route("std_msgs/msg/String", ""), Ok(false));
    assert_eq!(route("std_msgs/msg/String", "live = true"), Ok(true));
    assert!(
        route("sensor_msgs/msg/CompressedImage", "largest = \"1MB\"\nlive = true")
            .unwrap_err()
            .contains("`live`")
    );
}

/// Over a satellite every message is older than a hand could use, and still the newest that there is.
#[test]
fn what_is_live_is_worthless_at_no_age_unless_the_file_says_so_and_goes_behind_commands() {
    let channel = |more: &str| {
        let route =
            "[[route]]\ntopic = \"/a\"\ntype = \"sensor_msgs/msg/JointState\"\ndirection = \"to_operator\"\n";
        format!("{:?}", parse(&format!("{END}{route}{more}")).unwrap().routes[0].channel())
    };
    let live = channel("");
    assert!(live.contains("deadline: Some(None)") && live.contains("priority: Some(3)"), "{live}");
    let said = channel("deadline = \"50ms\"\npriority = 6\n");
    assert!(said.contains("deadline: Some(Some(50ms))") && said.contains("priority: Some(6)"), "{said}");
}

#[test]
fn a_stamp_is_rewritten_where_messages_begin_with_one() {
    let route = |kind: &str| {
        let route = format!(
            "[[route]]\ntopic = \"/a\"\ntype = \"{kind}\"\ndirection = \"to_operator\"\nstamp = \"rewrite\"\n"
        );
        parse(&format!("{END}{route}")).map(|config| config.routes[0].rewrites_stamp)
    };
    // The last is not known here.
    for kind in ["sensor_msgs/msg/JointState", "geometry_msgs/msg/PoseStamped", "nav_msgs/msg/Odometry"] {
        assert_eq!(route(kind), Ok(true), "{kind}");
    }
    for kind in [
        "geometry_msgs/msg/Twist",
        "std_msgs/msg/Float64MultiArray",
        "std_msgs/msg/String",
        "std_msgs/msg/Bool",
        "tf2_msgs/msg/TFMessage",
    ] {
        let why = route(kind).expect_err(kind);
        assert!(why.contains("begin with a std_msgs/msg/Header") && why.contains(".toml:6:"), "{why}");
    }
}

#[test]
fn one_subscribes_at_least_and_more_where_the_route_says_so() {
    let subscribers = |said: &str| {
        let arm = ARM.replace("moves = true", &format!("moves = true\n{said}"));
        parse(&format!("{END}{arm}"))
            .map(|config| config.routes[0].moving.as_ref().map(|moving| moving.subscribers))
    };
    assert_eq!(subscribers(""), Ok(Some(1)));
    assert_eq!(subscribers("subscribers = 2"), Ok(Some(2)));
    assert!(subscribers("subscribers = 0").unwrap_err().contains("1 at least"));
    let joints =
        "[[route]]\ntopic = \"/a\"\ntype = \"sensor_msgs/msg/JointState\"\ndirection = \"to_operator\"\n";
    assert!(wrong(&format!("{END}{joints}subscribers = 2\n")).contains("`moves = true`"));
}

#[test]
fn no_topic_passes_both_ways_and_one_route_alone_moves_the_robot_by_it() {
    let back = "[[route]]\ntopic = \"/servo\"\ntype = \"trajectory_msgs/msg/JointTrajectory\"\ndirection = \"to_operator\"\n";
    for name in ["", "name = \"told\"\n"] {
        let why = wrong(&format!("{END}{ARM}{back}{name}"));
        assert!(why.contains("come back for ever") && why.contains(".toml:17:"), "{why}");
    }
    let again =
        ARM.replace("moves = true", "moves = true\nname = \"again\"").replace("limits.servo", "limits.again");
    let why = wrong(&format!("{END}{ARM}{again}"));
    assert!(why.contains("by another route"), "{why}");
}

#[test]
fn nothing_else_passes_to_a_topic_that_moves_the_robot_or_tells_where_it_is() {
    let route = |topic: &str, direction: &str| {
        format!(
            "[[route]]\ntopic = \"{topic}\"\ntype = \"sensor_msgs/msg/JointState\"\ndirection = \"{direction}\"\nname = \"x\"\n"
        )
    };
    let arm = ARM.replace("trajectory_msgs/msg/JointTrajectory", "sensor_msgs/msg/JointState");
    for topic in ["/servo", "/joint_states"] {
        let other = route(topic, "to_robot");
        for text in [format!("{END}{arm}{other}"), format!("{END}{other}{arm}")] {
            let why = wrong(&text);
            assert!(why.contains("by another route"), "{why}");
        }
    }
    let why = wrong(&format!("{END}{}", arm.replace("/joint_states", "/servo")));
    assert!(why.contains("by another route"), "{why}");
    assert!(parse(&format!("{END}{arm}{}", route("/joint_states", "to_operator"))).is_ok());
    assert!(parse(&format!("{END}{arm}{}", route("/other", "to_robot"))).is_ok());
}

#[test]
fn what_holds_nothing_where_it_is_written_is_refused() {
    let jog = ARM.replace("trajectory_msgs/msg/JointTrajectory", "control_msgs/msg/JointJog");
    for key in ["acceleration", "effort", "stiffness"] {
        let limits = format!("velocity = 0.5, {key} = 1.0 }}\nb");
        let why = wrong(&format!("{END}{}", jog.replace("velocity = 0.5 }\nb", &limits)));
        assert!(why.contains(&format!("joint \"a\": `{key}`")) && why.contains(".toml:14:"), "{why}");
    }
    let arm = |from: &str, to: &str| parse(&format!("{END}{}", ARM.replace(from, to)));
    let stiff =
        |effort: &str| arm("velocity = 0.5 }\nb", &format!("velocity = 0.5, stiffness = 9.0{effort} }}\nb"));
    assert!(stiff("").unwrap_err().contains("`effort`") && stiff(", effort = 0.0").is_err());
    assert!(stiff(", effort = 1.0").is_ok());
    let base = |kind: &str, more: &str| {
        let route = format!(
            "[[route]]\ntopic = \"/a\"\ntype = \"{kind}\"\ndirection = \"to_robot\"\nmoves = true\n{more}"
        );
        wrong(&format!("{END}{route}"))
    };
    assert!(base("geometry_msgs/msg/Twist", "frame = \"base\"").contains("`frame`"));
    assert!(base("geometry_msgs/msg/Twist", "measured = \"/b\"").contains("`measured`"));
    assert!(base("geometry_msgs/msg/Twist", "time_from_start = \"1s\"").contains("`time_from_start`"));
    let array = "command = \"position\"\njoints = [\"a\"]\nframe = \"base\"";
    assert!(base("std_msgs/msg/Float64MultiArray", array).contains("`frame`"));
}

#[test]
fn what_mostly_moves_robots_passes_unheld_only_where_the_file_says_so() {
    let route = |kind: &str, more: &str| {
        let route = format!("[[route]]\ntopic = \"/a\"\ntype = \"{kind}\"\ndirection = \"to_robot\"\n{more}");
        parse(&format!("{END}{route}")).map(|_| ())
    };
    for kind in ["geometry_msgs/msg/Pose", "sensor_msgs/msg/Joy", "ackermann_msgs/msg/AckermannDrive"] {
        let why = route(kind, "").expect_err(kind);
        assert!(why.contains("`moves = false`"), "{why}");
        assert_eq!(route(kind, "moves = false\n"), Ok(()));
    }
    assert_eq!(route("std_msgs/msg/String", ""), Ok(()));
}

#[test]
fn a_trajectory_begins_when_it_arrives_or_says_when_it_ends() {
    let stamps = |said: &str| {
        let arm = ARM.replace("moves = true", &format!("moves = true\n{said}"));
        parse(&format!("{END}{arm}"))
            .map(|config| config.routes[0].moving.as_ref().map(|moving| moving.format.stamps))
    };
    assert_eq!(stamps(""), Ok(Some(false)));
    assert!(stamps("stamp = \"rewrite\"").unwrap_err().contains("`time_from_start`"));
    assert_eq!(stamps("stamp = \"rewrite\"\ntime_from_start = \"50ms\""), Ok(Some(true)));
}
