/** The robot in three dimensions: a script of its own, for three is larger than all else here. `posture.ts` loads it. */

import * as three from "three";
import URDFLoader from "urdf-loader";

const GROUND = 0x1a222c;
const LINE = 0x4a5a6c;
/** From behind, to the right and above, as the drawn camera looks: forth is away, left is left. rad. */
const LOOKS_FROM = { azimuth: -2.3, elevation: 0.45 };
/** rad for a pixel that a pointer is dragged. */
const TURNS = 0.01;

class Model {
  private readonly renderer;
  private readonly scene = new three.Scene();
  private readonly camera = new three.PerspectiveCamera(40, 1, 0.01, 1000);
  private readonly robot;
  private readonly middle = new three.Vector3();
  private reach = 1;
  private from = { ...LOOKS_FROM };

  /** A URDF of primitives, and the joints whose places it is told. */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    urdf: string,
    private readonly joints: string[],
  ) {
    this.renderer = new three.WebGLRenderer({ canvas, antialias: true });
    this.robot = new URDFLoader().parse(urdf);
    // Where it is counts, also where it should not be.
    for (const joint of joints) this.robot.joints[joint]!.ignoreLimits = true;
    this.camera.up.set(0, 0, 1);
    this.scene.background = new three.Color(GROUND);
    const sun = new three.DirectionalLight(0xffffff, 2);
    sun.position.set(-1, 1.5, 3);
    this.scene.add(this.robot, new three.HemisphereLight(0xdfe9f5, 0x303a46, 1.6), sun);
    canvas.addEventListener("pointerdown", ({ pointerId }) => canvas.setPointerCapture(pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) this.turn(event.movementX, event.movementY);
    });
  }

  /** Where joints are, rad or m. */
  show(places: Float32Array): void {
    this.joints.forEach((joint, place) => this.robot.setJointValue(joint, places[place]!));
  }

  /** Looks at all of it as it stands, from as far as it reaches. */
  look(): void {
    const box = new three.Box3().setFromObject(this.robot);
    box.getCenter(this.middle);
    this.reach = Math.max(box.getSize(new three.Vector3()).length() / 2, 0.01);
    const grid = new three.GridHelper(this.reach * 3, 12, LINE, LINE);
    grid.rotation.x = Math.PI / 2;
    grid.position.set(this.middle.x, this.middle.y, box.min.z);
    this.scene.add(grid);
  }

  private turn(right: number, down: number): void {
    this.from.azimuth -= right * TURNS;
    this.from.elevation = Math.min(Math.max(this.from.elevation + down * TURNS, -1.5), 1.5);
  }

  /** Nothing moves here but what the robot moves, and the pointer. */
  draw(): void {
    const { clientWidth, clientHeight } = this.canvas;
    if (clientWidth === 0 || clientHeight === 0) return;
    const { azimuth, elevation } = this.from;
    const far = (this.reach * 1.05) / Math.sin((this.camera.fov * Math.PI) / 360);
    const away = new three.Vector3(Math.cos(azimuth) * Math.cos(elevation), Math.sin(azimuth) * Math.cos(elevation), Math.sin(elevation));
    this.camera.position.copy(this.middle).addScaledVector(away, far);
    this.camera.lookAt(this.middle);
    this.camera.aspect = clientWidth / clientHeight;
    this.camera.updateProjectionMatrix();
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.renderer.setSize(clientWidth, clientHeight, false);
    this.renderer.render(this.scene, this.camera);
  }
}

export type { Model };
globalThis.tautModel = Model;
