"""An arm of three sliding axes before a wall, simulated by MuJoCo: mujoco_arm.py ADDRESS OPERATOR_FINGERPRINT

The wall stands at x = 0.15 m: who moves the hand beyond it feels the arm press.
"""

import sys

import mujoco
import taut

STIFFNESS = 1000.0  # N/m, of each axis
MODEL = f"""
<mujoco model="slide arm">
  <option timestep="0.001" integrator="implicitfast" gravity="0 0 0"/>
  <worldbody>
    <geom name="wall" type="box" pos="0.19 0 0.2" size="0.02 0.3 0.2" solref="-3000 -60"/>
    <body pos="0 0 0.2">
      <joint name="x" type="slide" axis="1 0 0" range="-0.3 0.3" limited="true"/>
      <joint name="y" type="slide" axis="0 1 0" range="-0.3 0.3" limited="true"/>
      <joint name="z" type="slide" axis="0 0 1" range="-0.15 0.3" limited="true"/>
      <geom name="tip" type="sphere" size="0.02" mass="1"/>
    </body>
  </worldbody>
  <actuator>
    <position joint="x" kp="{STIFFNESS}" kv="60" forcerange="-20 20"/>
    <position joint="y" kp="{STIFFNESS}" kv="60" forcerange="-20 20"/>
    <position joint="z" kp="{STIFFNESS}" kv="60" forcerange="-20 20"/>
  </actuator>
</mujoco>
"""
HOME = (0.0, 0.0, 0.2)


class SlideArm:
    """Its physics advance when it is measured, to what `taut.monotonic` reads: the machine's clock, or the simulator's."""

    keeps_lease = True  # A step after the end of a lease holds the arm where it is.

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string(MODEL)
        self.data = mujoco.MjData(self.model)
        self.target, self.until, self.moving, self.time = None, 0.0, False, None

    def apply(self, state, lease):
        self.until = taut.monotonic() + lease
        self.target = tuple(a - b for a, b in zip(state.position, HOME))

    def measure(self):
        now = taut.monotonic()
        if self.time is None or now - self.time > 0.1:  # At the beginning, or after the program was held up.
            self.time = now
        while self.time + self.model.opt.timestep < now + 1e-9:
            self.step()
        position = [a + b for a, b in zip(self.data.qpos, HOME)]
        # What the axes push with is what the wall pushes back, once the arm rests.
        return taut.State(position, velocity=self.data.qvel, force=[-force for force in self.data.actuator_force])

    def step(self):
        target = self.target
        was_moving, self.moving = self.moving, target is not None and self.time < self.until
        if self.moving:
            self.data.ctrl[:] = target
        elif was_moving:  # Stopped, or the lease is over: it stays where it is.
            self.data.ctrl[:] = self.data.qpos
        mujoco.mj_step(self.model, self.data)
        self.time += self.model.opt.timestep

    def stop(self, cause):
        self.target = None
        print("stopped:", cause, flush=True)


LIMITS = taut.Limits(
    position=[(-0.3, -0.3, 0.05), (0.3, 0.3, 0.5)], velocity=0.5, angular_velocity=0.0, force=20.0, stiffness=STIFFNESS
)

if __name__ == "__main__":
    with taut.Robot(
        sys.argv[1], identity="robot.key", trust=sys.argv[2], limits=LIMITS, device=SlideArm(), keeps_stops_in="robot.stops"
    ) as robot:
        print("fingerprint", robot.fingerprint, "listens on", robot.address, flush=True)
        robot.wait()
