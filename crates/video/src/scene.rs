//! A test picture whose number can be read from its pixels, also after it was encoded.

use crate::{Image, VideoError};

/// Pixels of a block: one of VP8 has as many.
const BLOCK: usize = 16;
/// Rows of blocks with the number: it, and its complement.
const ROWS: usize = 2;
/// Blocks that say where the number begins, and of the number itself.
const MARKS: usize = 4;
const BITS: usize = 32;
const BLACK: u8 = 16;
const WHITE: u8 = 235;
/// Columns and rows of the ground; it repeats.
const GROUND: usize = 512;

/// The smallest picture that has room for a number: 36 blocks and two rows.
pub const LEAST_SCENE: (usize, usize) = ((MARKS + BITS) * BLOCK, ROWS * BLOCK);

/// A scene with a ground that moves, a disc that moves otherwise, noise as of a sensor, and on top its number in blocks of 16 by 16 pixels:
/// four that alternate, then 32 bits, and below them their complement.
#[derive(Clone, Debug)]
pub struct Scene {
    image: Image,
    ground: Vec<u8>,
}

impl Scene {
    /// Of so many pixels.
    ///
    /// # Errors
    /// Of less than [`LEAST_SCENE`], where no number fits, and beyond the sizes of [`Image`].
    pub fn new(width: usize, height: usize) -> Result<Self, VideoError> {
        if width < LEAST_SCENE.0 || height < LEAST_SCENE.1 {
            return Err(VideoError::Size { width, height });
        }
        Ok(Self { image: Image::new(width, height)?, ground: ground() })
    }

    /// The picture of this number.
    pub fn draw(&mut self, number: u32) -> &Image {
        let (width, height) = (self.image.width(), self.image.height());
        let half = width.div_ceil(2);
        let (right, down) = (number as usize * 2, number as usize / 2);
        let [luma, blue, red] = self.image.planes_mut();
        let mut noise = Noise(u64::from(number) << 1 | 1);
        // A triangle's wave, of a period that is no multiple of the ground's.
        let swing = |period: usize, span: usize| {
            let phase = number as usize % (2 * period);
            phase.min(2 * period - phase) * span / period
        };
        let (x, y) = (swing(71, width) as i64, swing(53, height) as i64);
        for (row, line) in luma.chunks_exact_mut(width).enumerate() {
            if row < ROWS * BLOCK {
                let bits = if row < BLOCK { number } else { !number };
                line.iter_mut().enumerate().for_each(|(at, pixel)| *pixel = counter(bits, at / BLOCK));
                continue;
            }
            let ground = &self.ground[(row + down) % GROUND * GROUND..][..GROUND];
            for (column, pixel) in line.iter_mut().enumerate() {
                let from = (column as i64 - x, row as i64 - y);
                let inside = from.0 * from.0 + from.1 * from.1 < 48 * 48;
                let chequered = 200 - 90 * ((from.0 >> 3 ^ from.1 >> 3) & 1) as u8;
                let plain = ground[(column + right) % GROUND];
                *pixel = if inside { chequered } else { plain.saturating_add(noise.next() & 3) };
            }
        }
        for (row, (blue, red)) in blue.chunks_exact_mut(half).zip(red.chunks_exact_mut(half)).enumerate() {
            for (column, (blue, red)) in blue.iter_mut().zip(red).enumerate() {
                let coloured = row >= ROWS * BLOCK / 2;
                *blue = if coloured { 100 + ((column + right / 2) / 16 % 40) as u8 } else { 128 };
                *red = if coloured { 150 - ((row + down / 2) / 16 % 40) as u8 } else { 128 };
            }
        }
        &self.image
    }

    /// The number of a picture; `None` where it cannot be read.
    pub fn read(image: &Image) -> Option<u32> {
        if image.width() < LEAST_SCENE.0 || image.height() < LEAST_SCENE.1 {
            return None;
        }
        let luma = image.planes()[0];
        let is_white = |block: usize, row: usize| {
            luma[(row * BLOCK + BLOCK / 2) * image.width() + block * BLOCK + BLOCK / 2] > 128
        };
        let bits = |row: usize| {
            (MARKS..MARKS + BITS).fold(0, |bits: u32, at| bits << 1 | u32::from(is_white(at, row)))
        };
        let marked = (0..MARKS).all(|at| is_white(at, 0) == (at % 2 == 0));
        (marked && bits(0) == !bits(1)).then(|| bits(0))
    }
}

/// A pixel of the number's rows.
fn counter(bits: u32, block: usize) -> u8 {
    let white = match block {
        0..MARKS => block.is_multiple_of(2),
        MARKS.. if block < MARKS + BITS => bits >> (MARKS + BITS - 1 - block) & 1 == 1,
        _ => false,
    };
    if white { WHITE } else { BLACK }
}

/// Noise, blurred three times so that its spectrum falls like that of a picture, and stretched again.
fn ground() -> Vec<u8> {
    let mut noise = Noise(7);
    let mut ground: Vec<i32> = (0..GROUND * GROUND).map(|_| i32::from(noise.next()) << 8).collect();
    for _ in 0..3 {
        let sharp = ground.clone();
        for (at, value) in ground.iter_mut().enumerate() {
            let (row, column) = (at / GROUND, at % GROUND);
            let along = |by: usize| sharp[row * GROUND + (column + by) % GROUND];
            let across = |by: usize| sharp[(row + by) % GROUND * GROUND + column];
            *value = (0..5).map(|by| along(by) + across(by)).sum::<i32>() / 10;
        }
    }
    let stretch = |(at, value): (usize, i32)| {
        let shade = (at % GROUND / 8 + at / GROUND / 16) as i32 % 64;
        ((((value >> 8) - 127) * 3 + 90 + shade).clamp(i32::from(BLACK), i32::from(WHITE))) as u8
    };
    ground.into_iter().enumerate().map(stretch).collect()
}

/// The same numbers every time (xorshift64, Marsaglia 2003).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_from_its_picture_and_from_no_other() {
        let mut scene = Scene::new(640, 480).unwrap();
        for number in [0, 1, 2, 0x5555_5555, u32::MAX] {
            assert_eq!(Scene::read(scene.draw(number)), Some(number));
        }
        assert_eq!(Scene::read(&Image::new(640, 480).unwrap()), None);
        assert_eq!(Scene::read(&Image::new(64, 48).unwrap()), None);
        assert!(Scene::new(575, 480).is_err() && Scene::new(576, 32).is_ok());
    }
}
