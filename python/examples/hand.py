"""Moves the arm of robot.py ten centimetres: hand.py ADDRESS ROBOT_FINGERPRINT"""

import sys
import time
import taut

with taut.connect(sys.argv[1], identity="operator.key", trust=sys.argv[2]) as operator:
    operator.resume()
    for step in range(2000):
        operator.send(taut.State((0.1, 0, 0.2)))
        arm = operator.latest()
        if arm and abs(arm.position[0] - 0.1) < 0.001:
            print("arrived after", step, "steps:", arm)
            break
        time.sleep(0.001)
