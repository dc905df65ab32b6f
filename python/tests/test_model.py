"""The model that the console shows of the MuJoCo arm is that arm."""

import pytest

mujoco = pytest.importorskip("mujoco")
np = pytest.importorskip("numpy")

import taut.robots.mujoco as robots  # noqa: E402

#: Nothing is simplified away.
KEEP = '<mujoco><compiler fusestatic="false"/></mujoco></robot>'


def models():
    """As MuJoCo reads them: that of the simulation and that of the page."""
    simulated = robots.MODEL.with_suffix(".xml")
    # What is drawn has no mass, and what moves needs one.
    shown = robots.MODEL.read_text().replace("visual>", "collision>").replace("</robot>", KEEP)
    return mujoco.MjModel.from_xml_path(str(simulated)), mujoco.MjModel.from_xml_string(shown)


def test_joints_and_their_ranges_are_the_same_in_the_same_order():
    arm, shown = models()
    assert [shown.joint(at).name for at in range(shown.njnt)] == [arm.joint(at).name for at in range(arm.njnt)]
    np.testing.assert_array_equal(shown.jnt_type, arm.jnt_type)
    np.testing.assert_allclose(shown.jnt_range, arm.jnt_range)


def test_at_random_joints_every_link_is_in_the_same_place():
    arm, shown = models()
    draw, links = np.random.default_rng(1), [arm.body(at).name for at in range(1, arm.nbody)]
    for _ in range(100):
        joints = draw.uniform(*arm.jnt_range.T)
        seen = []
        for model in (arm, shown):
            data = mujoco.MjData(model)
            data.qpos[:] = joints
            mujoco.mj_kinematics(model, data)
            seen.append(np.array([[*data.body(link).xpos, *data.body(link).xmat] for link in links]))
        np.testing.assert_allclose(seen[1], seen[0], atol=1e-9)


def test_the_arm_tells_its_joints_where_somebody_asks_for_them():
    from taut.device import Channel

    arm = robots.Arm("free")
    arm.measure()
    assert list(arm.messages()) == []
    arm.declared([Channel("measured_js", None, False, True, 4096), Channel("arm/measured_js", None, True, True, 4096)])
    [(name, told)] = arm.messages()
    assert name == "arm/measured_js" and told["position_rad"] == pytest.approx(arm.data.qpos[:8])
    assert list(arm.messages()) == [], "not before its time"
