"""An arm that is at once where it is told to be: robot.py ADDRESS OPERATOR_FINGERPRINT"""

import contextlib
import sys
import taut


class Arm:
    state = taut.State((0, 0, 0.2))

    def apply(self, state, lease):  # Fresh, and within the limits; hold it for `lease` seconds at most.
        self.state = state

    def measure(self):
        return self.state

    def stop(self, cause):
        print("stopped:", cause)


limits = taut.Limits(position=[(-0.3, -0.3, 0.05), (0.3, 0.3, 0.5)], velocity=0.25, angular_velocity=0.5, force=20, stiffness=500)
with taut.Robot(
    sys.argv[1], identity="robot.key", trust=sys.argv[2], limits=limits, device=Arm(), keeps_stops_in="robot.stops"
) as robot:
    print("fingerprint", robot.fingerprint, "listens on", robot.address)
    with contextlib.suppress(KeyboardInterrupt):
        robot.wait()
