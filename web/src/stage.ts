/** Draws a headset's views by WebGL: the picture, the board below it, and where hands are. */

import { HEIGHT, WIDTH } from "./board";
import type { Place } from "./immersive";

/** How far before its person the picture stands, and how wide it is, m: as a large screen is. The board is narrower, and stands below. */
const AWAY = 1.6;
const PICTURE = 1.4;
const BOARD = 1.1;
const GAP = 0.04;
/** The picture's middle is a little above the eyes, m, so that the board is seen without bending the head. */
const ABOVE = 0.08;
/** Of a hand's mark, m. */
const MARK = 0.012;

const VERTICES = `attribute vec2 at; uniform mat4 model; uniform mat4 view; varying vec2 within;
void main() { within = at; gl_Position = view * model * vec4(at, 0.0, 1.0); }`;
/** A texture, darker or not, whose first row is above; or a disc of one colour. */
const FRAGMENTS = `precision mediump float; varying vec2 within; uniform sampler2D image; uniform vec4 colour;
void main() {
  if (colour.a > 0.0) { if (length(within) > 1.0) discard; gl_FragColor = colour; }
  else gl_FragColor = vec4(texture2D(image, vec2(within.x, -within.y) * 0.5 + 0.5).rgb * colour.rgb, 1.0);
}`;

interface At {
  x: number;
  y: number;
  z: number;
}

export class Stage {
  private readonly pictures: WebGLTexture;
  private readonly boards: WebGLTexture;
  private readonly uniforms;
  /** Of the picture, width by height; 0: there is none. */
  private shape = 0;

  private constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGLRenderingContext,
    private readonly layer: XRWebGLLayer,
    private readonly isSeenThrough: boolean,
  ) {
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTICES], [gl.FRAGMENT_SHADER, FRAGMENTS]] as const) {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.bindAttribLocation(program, 0, "at");
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "the browser lost its graphics");
    gl.useProgram(program);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    const [model, view, colour] = ["model", "view", "colour"].map((name) => gl.getUniformLocation(program, name));
    this.uniforms = { model: model!, view: view!, colour: colour! };
    [this.pictures, this.boards] = [this.texture(), this.texture()];
  }

  static async of(session: XRSession): Promise<Stage> {
    const canvas = document.createElement("canvas");
    // Of its own it draws nothing: that is the layer's.
    const gl = canvas.getContext("webgl", { xrCompatible: true, antialias: false, depth: false });
    if (!gl) throw new Error("this browser has no WebGL");
    const layer = new XRWebGLLayer(session, gl, { depth: false });
    await session.updateRenderState({ baseLayer: layer });
    return new Stage(canvas, gl, layer, session.environmentBlendMode !== "opaque");
  }

  private texture(): WebGLTexture {
    const { gl } = this;
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    return texture;
  }

  private fill(texture: WebGLTexture, of: TexImageSource): void {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, of);
  }

  picture(frame: VideoFrame | ImageBitmap | HTMLCanvasElement): void {
    const [width, height] = "displayWidth" in frame ? [frame.displayWidth, frame.displayHeight] : [frame.width, frame.height];
    if (width === 0 || height === 0) return;
    this.fill(this.pictures, frame);
    this.shape = width / height;
  }

  board(canvas: HTMLCanvasElement): void {
    this.fill(this.boards, canvas);
  }

  draw(viewer: XRViewerPose, place: Place, hands: { at: At; moves: boolean }[], isStale: boolean): void {
    const { gl, layer } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, layer.framebuffer);
    // Where the room is seen, it stays.
    if (this.isSeenThrough) gl.clearColor(0, 0, 0, 0);
    else gl.clearColor(0.03, 0.04, 0.05, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const high = this.shape === 0 ? 0 : PICTURE / this.shape;
    const board = (BOARD * HEIGHT) / WIDTH;
    for (const view of viewer.views) {
      const port = layer.getViewport(view);
      if (!port) continue;
      gl.viewport(port.x, port.y, port.width, port.height);
      gl.uniformMatrix4fv(this.uniforms.view, false, product(view.projectionMatrix, view.transform.inverse.matrix));
      const light = isStale ? 0.35 : 1;
      if (high > 0) this.quad(before(place, ABOVE, PICTURE, high), this.pictures, [light, light, light, 0]);
      this.quad(before(place, ABOVE - high / 2 - GAP - board / 2, BOARD, board), this.boards, [1, 1, 1, 0]);
      for (const { at, moves } of hands) this.quad(model(place, at, 2 * MARK, 2 * MARK), this.boards, moves ? [0.31, 0.82, 0.54, 1] : [0.67, 0.72, 0.78, 1]);
    }
  }

  private quad(model: Float32Array, texture: WebGLTexture, colour: [number, number, number, number]): void {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.uniformMatrix4fv(this.uniforms.model, false, model);
    gl.uniform4f(this.uniforms.colour, ...colour);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  }
}

/** Of a quad that faces who stands at the place, so high above the eyes. */
function before(place: Place, above: number, width: number, height: number): Float32Array {
  const { origin, sine, cosine } = place;
  return model(place, { x: origin.x - sine * AWAY, y: origin.y + above, z: origin.z - cosine * AWAY }, width, height);
}

/** Columns of a matrix: a quad's right, up, and what it faces; its middle. */
function model({ sine, cosine }: Place, { x, y, z }: At, width: number, height: number): Float32Array {
  return new Float32Array([(cosine * width) / 2, 0, (-sine * width) / 2, 0, 0, height / 2, 0, 0, sine, 0, cosine, 0, x, y, z, 1]);
}

/** Of two matrices by their columns. */
function product(a: Float32Array, b: Float32Array): Float32Array {
  return Float32Array.from({ length: 16 }, (_, at) => {
    let sum = 0;
    for (let through = 0; through < 4; through++) sum += a[through * 4 + (at % 4)]! * b[at - (at % 4) + through]!;
    return sum;
  });
}
