//! What a camera behind a robot's hand would see, drawn from where the robot says that its hand is.

use crate::arm::{FLOOR, SHOULDER, elbow};
use crate::{Image, VideoError};

/// A point or a direction: x forth, y left, z up, in m.
type Vector = [f32; 3];
/// Red, green and blue, 0 to 255.
type Colour = [f32; 3];

/// Where the camera stands and what it looks at: behind the hand, to its right and above, so that forth is away and left is left.
const EYE: Vector = [-0.44, -0.12, 0.22];
const LOOKS_AT: Vector = [0.0, 0.03, -0.03];
/// Of a picture's width.
const FOCAL: f32 = 0.95;
/// A side of the floor's squares.
const SQUARE: f32 = 0.05;
/// What fills x > 0: its front, from -y to y and from the floor up to z.
const SURFACE: [f32; 2] = [0.16, 0.1];
/// The hand's radius, and those of the arm's links.
const HAND: f32 = 0.014;
const LINK: f32 = 0.011;
/// At this force the surface glows as it can, N.
const GLOWS: f32 = 10.0;

const SKY: Colour = [22.0, 28.0, 36.0];
const TILES: [Colour; 2] = [[92.0, 102.0, 112.0], [70.0, 79.0, 89.0]];
const WALL: Colour = [84.0, 160.0, 190.0];
const GLOW: Colour = [240.0, 120.0, 60.0];
const BALL: Colour = [245.0, 190.0, 70.0];
const ARM: Colour = [205.0, 210.0, 216.0];

/// A picture of a floor, of what the robot touches if that is known, and of its arm and hand; in a corner a hand turns once a second, so
/// that a picture that stands is told from a robot that stands.
///
/// ```
/// use taut_video::{Drawing, Shown, VideoError};
/// # fn main() -> Result<(), VideoError> {
/// let mut drawing = Drawing::new(320, 240, true)?;
/// let before = drawing.draw(&Shown { position: [-0.06, 0.0, 0.0], force: 0.0, seconds: 0.0 }).clone();
/// assert_ne!(*drawing.draw(&Shown { position: [0.0, 0.0, 0.0], force: 4.0, seconds: 0.0 }), before);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Drawing {
    width: usize,
    height: usize,
    camera: Camera,
    /// Without arm and hand.
    ground: Vec<u8>,
    /// How much of the surface is in each pixel, 0 to 255; nothing: there is none.
    surface: Vec<u8>,
    rgb: Vec<u8>,
    image: Image,
}

/// What is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// Of the hand: x forth, y left, z up, m.
    pub position: [f32; 3],
    /// On it, N.
    pub force: f32,
    /// Of the clock.
    pub seconds: f32,
}

impl Drawing {
    /// Of so many pixels; `touches`: something fills x > 0.
    ///
    /// # Errors
    /// Of a size that [`Image`] has not.
    pub fn new(width: usize, height: usize, touches: bool) -> Result<Self, VideoError> {
        let image = Image::new(width, height)?;
        let camera = Camera::new(width, height);
        let pixels = (0..width * height).map(|at| camera.ray((at % width) as f32, (at / width) as f32));
        let mut ground = Vec::with_capacity(3 * width * height);
        let mut surface = Vec::with_capacity(if touches { width * height } else { 0 });
        for ray in pixels {
            ground.extend(floor(ray).map(|part| part as u8));
            if touches {
                surface.push(front(ray));
            }
        }
        let rgb = ground.clone();
        Ok(Self { width, height, camera, ground, surface, rgb, image })
    }

    /// The picture.
    pub fn draw(&mut self, shown: &Shown) -> &Image {
        self.rgb.copy_from_slice(&self.ground);
        // What is not a place is drawn where it is seen at once that something is wrong: nowhere.
        let hand = shown.position.map(|part| part.clamp(-2.0, 2.0));
        if hand.iter().all(|part| part.is_finite()) {
            let inside = hand[0] > 0.0;
            self.shadow(hand);
            if inside {
                self.arm(hand);
            }
            self.blend_surface(shown.force);
            if !inside {
                self.arm(hand);
            }
        } else {
            self.blend_surface(0.0);
        }
        self.clock(shown.seconds);
        if let Ok(image) = Image::from_rgb(self.width, self.height, &self.rgb) {
            self.image = image;
        }
        &self.image
    }

    /// The hand's, on the floor, which says how high it is, and on the surface in front of it.
    fn shadow(&mut self, hand: Vector) {
        let below = [hand[0], hand[1], FLOOR];
        self.stroke([below, below], HAND * 0.9, [20.0; 3], 0.5, false);
        self.stroke([hand, below], 0.0012, [20.0; 3], 0.35, false);
        if !self.surface.is_empty() && hand[0] < 0.0 {
            let before = [0.0, hand[1], hand[2]];
            self.stroke([hand, before], 0.001, [255.0; 3], 0.25, false);
            self.stroke([before, before], 0.004, [255.0; 3], 0.6, false);
        }
    }

    fn arm(&mut self, hand: Vector) {
        let elbow = elbow(hand);
        let base = [SHOULDER[0], SHOULDER[1], FLOOR];
        for (ends, radius) in
            [([base, SHOULDER], LINK * 1.4), ([SHOULDER, elbow], LINK * 1.2), ([elbow, hand], LINK)]
        {
            self.stroke(ends, radius, ARM, 1.0, true);
        }
        self.stroke([SHOULDER, SHOULDER], LINK * 1.7, ARM, 1.0, true);
        self.stroke([elbow, elbow], LINK * 1.4, ARM, 1.0, true);
        self.stroke([hand, hand], HAND, BALL, 1.0, true);
    }

    /// A round bar between two points, or a ball; `shaded` as what is round is.
    fn stroke(&mut self, ends: [Vector; 2], radius: f32, colour: Colour, opaque: f32, shaded: bool) {
        let [Some(one), Some(other)] = ends.map(|end| self.camera.project(end)) else { return };
        let (from, to) = ([one.x, one.y], [other.x, other.y]);
        let wide = [one.scale * radius, other.scale * radius].map(|wide| wide.max(0.7));
        let most = wide[0].max(wide[1]) + 1.0;
        let span = |axis: usize, limit: usize| {
            let least = (from[axis].min(to[axis]) - most).clamp(0.0, limit as f32) as usize;
            least..(from[axis].max(to[axis]) + most).clamp(0.0, limit as f32) as usize
        };
        let along = [to[0] - from[0], to[1] - from[1]];
        let squared = (along[0] * along[0] + along[1] * along[1]).max(1e-6);
        let columns = span(0, self.width);
        for row in span(1, self.height) {
            for column in columns.clone() {
                let at = [column as f32 - from[0], row as f32 - from[1]];
                let share = ((at[0] * along[0] + at[1] * along[1]) / squared).clamp(0.0, 1.0);
                let off = [at[0] - share * along[0], at[1] - share * along[1]];
                let wide = wide[0] + share * (wide[1] - wide[0]);
                let distance = off[0].hypot(off[1]);
                let covers = (wide - distance + 0.5).clamp(0.0, 1.0) * opaque;
                if covers <= 0.0 {
                    continue;
                }
                // Light from above and the left.
                let lit = if shaded {
                    let normal = [off[0] / wide, off[1] / wide];
                    let height = (1.0 - (normal[0] * normal[0] + normal[1] * normal[1]).min(1.0)).sqrt();
                    (0.35 + 0.5 * height - 0.2 * normal[0] - 0.3 * normal[1]).clamp(0.2, 1.1)
                } else {
                    1.0
                };
                self.blend(row * self.width + column, colour.map(|part| part * lit), covers);
            }
        }
    }

    fn blend_surface(&mut self, force: f32) {
        let pressed = if force.is_finite() { (force.abs() / GLOWS).min(1.0) } else { 1.0 };
        let colour: Colour = std::array::from_fn(|part| WALL[part] + pressed * (GLOW[part] - WALL[part]));
        for at in 0..self.surface.len() {
            let share = self.surface[at];
            if share > 0 {
                self.blend(at, colour, f32::from(share) / 255.0);
            }
        }
    }

    /// A hand that turns once a second.
    fn clock(&mut self, seconds: f32) {
        let radius = self.height as f32 / 24.0;
        let middle = [self.width as f32 - 1.6 * radius, 1.6 * radius];
        let turned = std::f32::consts::TAU * seconds.fract();
        let (sine, cosine) = turned.sin_cos();
        let reach = radius.ceil() as i32;
        for (down, right) in
            (-reach..=reach).flat_map(|down| (-reach..=reach).map(move |right| (down, right)))
        {
            let (x, y) = (middle[0] as i32 + right, middle[1] as i32 + down);
            let (right, down) = (right as f32, down as f32);
            if right.hypot(down) > radius
                || x < 0
                || y < 0
                || x as usize >= self.width
                || y as usize >= self.height
            {
                continue;
            }
            // Up at the full second, clockwise.
            let (along, across) = (right * sine - down * cosine, right * cosine + down * sine);
            let hand = along > 0.0 && across.abs() < radius / 7.0;
            let colour = if hand { [240.0; 3] } else { [40.0, 48.0, 58.0] };
            self.blend(y as usize * self.width + x as usize, colour, 0.9);
        }
    }

    fn blend(&mut self, at: usize, colour: Colour, share: f32) {
        for (pixel, part) in self.rgb[3 * at..3 * at + 3].iter_mut().zip(colour) {
            *pixel = (f32::from(*pixel) * (1.0 - share) + part * share).clamp(0.0, 255.0) as u8;
        }
    }
}

/// A camera without distortion.
#[derive(Clone, Copy, Debug)]
struct Camera {
    /// To the right, down, and into the picture.
    axes: [Vector; 3],
    focal: f32,
    middle: [f32; 2],
}

/// A point in a picture.
struct Point {
    x: f32,
    y: f32,
    /// Pixels of a metre there.
    scale: f32,
}

impl Camera {
    fn new(width: usize, height: usize) -> Self {
        let into = unit(minus(LOOKS_AT, EYE));
        let right = unit(cross(into, [0.0, 0.0, 1.0]));
        let (width, height) = (width as f32, height as f32);
        // What is seen is the same in every form of picture.
        let focal = FOCAL * width.min(height * 4.0 / 3.0);
        Self { axes: [right, cross(into, right), into], focal, middle: [width / 2.0, height / 2.0] }
    }

    fn ray(&self, x: f32, y: f32) -> Vector {
        let [right, down, into] = self.axes;
        let (x, y) = ((x - self.middle[0]) / self.focal, (y - self.middle[1]) / self.focal);
        unit(std::array::from_fn(|part| into[part] + x * right[part] + y * down[part]))
    }

    /// `None`: it is behind the camera, or too near.
    fn project(&self, point: Vector) -> Option<Point> {
        let [x, y, depth] = self.axes.map(|axis| dot(axis, minus(point, EYE)));
        let scale = self.focal / depth;
        (depth > 0.05).then(|| Point { x: self.middle[0] + x * scale, y: self.middle[1] + y * scale, scale })
    }
}

/// What a ray meets where there is no robot: squares, darker with their distance.
fn floor(ray: Vector) -> Colour {
    if ray[2] > -1e-3 {
        return SKY;
    }
    let far = (FLOOR - EYE[2]) / ray[2];
    let [x, y] = [EYE[0] + far * ray[0], EYE[1] + far * ray[1]];
    let tile = TILES[((x / SQUARE).floor() as i32 + (y / SQUARE).floor() as i32).rem_euclid(2) as usize];
    let clear = (1.0 - (far - 0.3) / 1.4).clamp(0.0, 1.0);
    std::array::from_fn(|part| SKY[part] + clear * (tile[part] - SKY[part]))
}

/// How much a ray sees of the surface's front: more along its grid and its rim.
fn front(ray: Vector) -> u8 {
    let far = -EYE[0] / ray[0];
    let [y, z] = [EYE[1] + far * ray[1], EYE[2] + far * ray[2]];
    if ray[0] <= 0.0 || y.abs() > SURFACE[0] || !(FLOOR..SURFACE[1]).contains(&z) {
        return 0;
    }
    let rim = SURFACE[0] - y.abs() < 0.004 || SURFACE[1] - z < 0.004;
    let line = |at: f32| (at / 0.04 - (at / 0.04).round()).abs() < 0.025;
    match (rim, line(y) || line(z)) {
        (true, _) => 220,
        (_, true) => 140,
        _ => 95,
    }
}

fn minus(one: Vector, other: Vector) -> Vector {
    std::array::from_fn(|part| one[part] - other[part])
}

fn dot(one: Vector, other: Vector) -> f32 {
    one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
}

fn cross(one: Vector, other: Vector) -> Vector {
    std::array::from_fn(|part| {
        let (next, last) = ((part + 1) % 3, (part + 2) % 3);
        one[next] * other[last] - one[last] * other[next]
    })
}

fn unit(vector: Vector) -> Vector {
    let length = dot(vector, vector).sqrt();
    vector.map(|part| part / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle of what has the hand's colour: column and row.
    fn ball(image: &Image) -> Option<[f32; 2]> {
        let rgb = image.to_rgb();
        let is_ball =
            |pixel: &[u8]| pixel[0] > 150 && pixel[0] > pixel[2].saturating_add(80) && pixel[1] > 100;
        let found: Vec<usize> =
            rgb.chunks_exact(3).enumerate().filter(|(_, p)| is_ball(p)).map(|(at, _)| at).collect();
        let mean = |part: fn(usize, usize) -> usize| {
            found.iter().map(|at| part(*at, image.width()) as f32).sum::<f32>() / found.len() as f32
        };
        (found.len() > 20).then(|| [mean(|at, width| at % width), mean(|at, width| at / width)])
    }

    fn at(position: [f32; 3]) -> Shown {
        Shown { position, ..Shown::default() }
    }

    #[test]
    fn forth_is_away_left_is_left_and_up_is_up() {
        let mut drawing = Drawing::new(640, 480, false).unwrap();
        let mut see = |position| ball(drawing.draw(&at(position))).unwrap();
        let rest = see([-0.06, 0.0, 0.0]);
        assert!((160.0..480.0).contains(&rest[0]) && (120.0..360.0).contains(&rest[1]), "{rest:?}");
        assert!(see([-0.06, 0.05, 0.0])[0] < rest[0] - 20.0);
        assert!(see([-0.06, 0.0, 0.05])[1] < rest[1] - 20.0);
        let scale = |position| drawing.camera.project(position).unwrap().scale;
        assert!(scale([0.06, 0.0, 0.0]) < scale([-0.06, 0.0, 0.0]));
    }

    #[test]
    fn a_surface_glows_when_it_is_pressed() {
        let mut drawing = Drawing::new(640, 480, true).unwrap();
        let mut red = |force| {
            let shown = Shown { force, ..at([-0.01, 0.1, 0.05]) };
            let [x, y] = [300, 240];
            drawing.draw(&shown).to_rgb()[3 * (y * 640 + x)]
        };
        assert!(red(10.0) > red(0.0) + 40);
    }

    #[test]
    fn whatever_a_robot_says_is_drawn_or_left_out() {
        let mut drawing = Drawing::new(320, 240, true).unwrap();
        for position in [[f32::NAN; 3], [f32::INFINITY, 0.0, 0.0], [1e9; 3], [-1e9, 0.0, 0.0], EYE, SHOULDER]
        {
            let image = drawing.draw(&Shown { position, force: f32::NAN, seconds: f32::NAN });
            assert_eq!(image.width(), 320, "{position:?}");
        }
        assert!(Drawing::new(0, 240, true).is_err());
        assert!(Drawing::new(1, 1, true).unwrap().draw(&Shown::default()).width() == 1);
    }
}
