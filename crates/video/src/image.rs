//! Pictures before they are encoded and after they are decoded.

use crate::VideoError;

/// A picture in I420: a plane of brightness, and two of colour with half as many columns and rows (rounded up), rows without gaps
/// between them. Values are those of ITU-R BT.601 with a restricted range: 16 is black, 235 white.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    bytes: Vec<u8>,
}

/// A plane of a picture as others have it in memory: each row begins `stride` bytes after the one before it, and a row's values are `step` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    /// From the first value on.
    pub bytes: &'a [u8],
    /// From one row to the next.
    pub stride: usize,
    /// From one value to the next: 1, or 2 where those of two planes take turns, as in NV12.
    pub step: usize,
}

impl Image {
    /// Of so many pixels, grey.
    ///
    /// # Errors
    /// Of a size that is not 1 to 16383 each, which is VP8's (RFC 6386 section 9.1).
    pub fn new(width: usize, height: usize) -> Result<Self, VideoError> {
        if !(1..=16_383).contains(&width) || !(1..=16_383).contains(&height) {
            return Err(VideoError::Size { width, height });
        }
        let bytes = vec![128; Self::bytes_of(width, height)];
        Ok(Self { width, height, bytes })
    }

    /// From its three planes, one after the other.
    ///
    /// # Errors
    /// Of a size beyond those of [`new`](Self::new), or when that is not as many bytes as such a picture has.
    pub fn from_i420(width: usize, height: usize, bytes: Vec<u8>) -> Result<Self, VideoError> {
        let image = Self::new(width, height)?;
        let needed = image.bytes.len();
        if bytes.len() != needed {
            return Err(VideoError::Bytes { given: bytes.len(), needed });
        }
        Ok(Self { bytes, ..image })
    }

    /// From planes of brightness, blue and red, such as those of I420 and NV12 with gaps between their rows.
    ///
    /// # Errors
    /// Of a size beyond those of [`new`](Self::new), or when a plane has fewer bytes than its rows need.
    pub fn from_rows(width: usize, height: usize, planes: [Rows<'_>; 3]) -> Result<Self, VideoError> {
        let mut image = Self::new(width, height)?;
        let strides = image.strides();
        for ((plane, columns), Rows { bytes, stride, step }) in
            image.planes_mut().into_iter().zip(strides).zip(planes)
        {
            let rows = plane.len() / columns;
            let needed = (rows - 1) * stride + (columns - 1) * step + 1;
            if bytes.len() < needed || stride < (columns - 1) * step + 1 {
                return Err(VideoError::Bytes { given: bytes.len(), needed });
            }
            for (line, from) in plane.chunks_exact_mut(columns).zip(bytes.chunks(stride)) {
                match step {
                    1 => line.copy_from_slice(&from[..columns]),
                    _ => line.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, from)| *to = *from),
                }
            }
        }
        Ok(image)
    }

    /// From red, green and blue, three bytes a pixel, row by row (ITU-R BT.601).
    ///
    /// # Errors
    /// As [`from_i420`](Self::from_i420).
    pub fn from_rgb(width: usize, height: usize, rgb: &[u8]) -> Result<Self, VideoError> {
        let mut image = Self::new(width, height)?;
        let needed = 3 * width * height;
        if rgb.len() != needed {
            return Err(VideoError::Bytes { given: rgb.len(), needed });
        }
        let [luma, blue, red] = image.planes_mut();
        let half = width.div_ceil(2);
        for (row, pixels) in rgb.chunks_exact(3 * width).enumerate() {
            for (column, pixel) in pixels.chunks_exact(3).enumerate() {
                let [r, g, b] = [0, 1, 2].map(|at| i32::from(pixel[at]));
                luma[row * width + column] = (((66 * r + 129 * g + 25 * b + 128) >> 8) + 16) as u8;
                if row % 2 == 0 && column % 2 == 0 {
                    let at = row / 2 * half + column / 2;
                    blue[at] = (((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128) as u8;
                    red[at] = (((112 * r - 94 * g - 18 * b + 128) >> 8) + 128) as u8;
                }
            }
        }
        Ok(image)
    }

    /// As red, green and blue, three bytes a pixel, row by row.
    pub fn to_rgb(&self) -> Vec<u8> {
        let [luma, blue, red] = self.planes();
        let half = self.width.div_ceil(2);
        let mut rgb = Vec::with_capacity(3 * self.width * self.height);
        for row in 0..self.height {
            for column in 0..self.width {
                let at = row / 2 * half + column / 2;
                let y = 298 * (i32::from(luma[row * self.width + column]) - 16) + 128;
                let (u, v) = (i32::from(blue[at]) - 128, i32::from(red[at]) - 128);
                let parts = [y + 409 * v, y - 100 * u - 208 * v, y + 516 * u];
                rgb.extend(parts.map(|part| (part >> 8).clamp(0, 255) as u8));
            }
        }
        rgb
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Its three planes, one after the other.
    pub fn as_i420(&self) -> &[u8] {
        &self.bytes
    }

    /// Brightness, blue, red.
    pub fn planes(&self) -> [&[u8]; 3] {
        let (luma, colour) = self.bytes.split_at(self.width * self.height);
        let (blue, red) = colour.split_at(colour.len() / 2);
        [luma, blue, red]
    }

    /// The same, to be written.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let (luma, colour) = self.bytes.split_at_mut(self.width * self.height);
        let half = colour.len() / 2;
        let (blue, red) = colour.split_at_mut(half);
        [luma, blue, red]
    }

    /// Bytes in a row of each plane.
    pub(crate) fn strides(&self) -> [usize; 3] {
        let half = self.width.div_ceil(2);
        [self.width, half, half]
    }

    /// With half as many columns and rows: each pixel is the mean of four. An odd last one is left out.
    ///
    /// # Errors
    /// Of a picture of a single column or row.
    pub(crate) fn halved(&self) -> Result<Self, VideoError> {
        let mut half = Self::new(self.width / 2, self.height / 2)?;
        let (from, to) = (self.strides(), half.strides());
        for (at, (plane, whole)) in half.planes_mut().into_iter().zip(self.planes()).enumerate() {
            let rows = whole.len() / from[at];
            for (row, line) in plane.chunks_exact_mut(to[at]).enumerate() {
                // Of colour there may be one row or column less than twice as many.
                let [upper, lower] =
                    [2 * row, 2 * row + 1].map(|row| &whole[row.min(rows - 1) * from[at]..][..from[at]]);
                for (column, pixel) in line.iter_mut().enumerate() {
                    let places = [2 * column, 2 * column + 1].map(|place| place.min(from[at] - 1));
                    let sum: u16 =
                        places.iter().map(|&place| u16::from(upper[place]) + u16::from(lower[place])).sum();
                    *pixel = ((sum + 2) / 4) as u8;
                }
            }
        }
        Ok(half)
    }

    /// How near the brightness is to that of a picture of the same size, dB: the peak signal-to-noise ratio, infinite where they are equal.
    pub fn psnr(&self, other: &Self) -> f64 {
        let (own, others) = (self.planes()[0], other.planes()[0]);
        let squares = own.iter().zip(others).map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2));
        let mean = squares.sum::<u64>() as f64 / own.len().max(1) as f64;
        10.0 * (255.0 * 255.0 / mean).log10()
    }

    fn bytes_of(width: usize, height: usize) -> usize {
        width * height + 2 * width.div_ceil(2) * height.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_come_back_from_i420() {
        for colour in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 200, 0], [10, 20, 250]] {
            let image = Image::from_rgb(3, 3, &colour.repeat(9)).unwrap();
            for (at, part) in image.to_rgb().iter().enumerate() {
                assert!(
                    part.abs_diff(colour[at % 3]) <= 3,
                    "{colour:?} came back as {:?}",
                    &image.to_rgb()[..3]
                );
            }
        }
    }

    #[test]
    fn planes_with_gaps_between_rows_and_values_are_read() {
        let luma = Rows { bytes: &[1, 2, 9, 9, 3, 4, 9, 9], stride: 4, step: 1 };
        let colour = [5, 6];
        let [blue, red] = [0, 1].map(|from| Rows { bytes: &colour[from..], stride: 4, step: 2 });
        let image = Image::from_rows(2, 2, [luma, blue, red]).unwrap();
        assert_eq!(image.as_i420(), [1, 2, 3, 4, 5, 6]);
        assert!(
            Image::from_rows(2, 4, [luma, blue, red]).is_err()
                && Image::from_rows(5, 2, [luma, blue, red]).is_err()
        );
        let narrow = Rows { stride: 1, ..luma };
        assert!(Image::from_rows(2, 2, [narrow, blue, red]).is_err());
    }

    #[test]
    fn a_picture_that_is_halved_keeps_its_colours_and_its_places() {
        for (width, height) in [(8, 6), (7, 5), (6, 9), (2, 2)] {
            let [left, right] = [[255, 0, 0], [10, 20, 250]];
            let rgb: Vec<u8> = (0..width * height)
                .flat_map(|at| if at % width < width / 4 * 2 { left } else { right })
                .collect();
            let half = Image::from_rgb(width, height, &rgb).unwrap().halved().unwrap();
            assert_eq!((half.width(), half.height()), (width / 2, height / 2));
            for (at, pixel) in half.to_rgb().chunks_exact(3).enumerate() {
                let expected = if at % (width / 2) < width / 4 { left } else { right };
                let luma = |colour: &[u8]| {
                    0.26 * f32::from(colour[0]) + 0.5 * f32::from(colour[1]) + 0.1 * f32::from(colour[2])
                };
                assert!((luma(pixel) - luma(&expected)).abs() < 12.0, "{width}×{height}: {pixel:?} at {at}");
            }
        }
        assert!(Image::new(1, 4).unwrap().halved().is_err());
    }

    #[test]
    fn sizes_that_no_codec_has_are_refused() {
        assert!(matches!(Image::new(0, 4), Err(VideoError::Size { .. })) && Image::new(20_000, 4).is_err());
        assert!(matches!(Image::from_i420(2, 2, vec![0; 5]), Err(VideoError::Bytes { given: 5, needed: 6 })));
        assert!(Image::from_rgb(2, 2, &[0; 11]).is_err());
    }
}
