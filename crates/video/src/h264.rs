//! H.264 (ITU-T H.264) by OpenH264, through the functions that its interfaces are tables of. Its source is compiled with the crate `openh264-sys2`.
#![allow(unsafe_code)]

use crate::longterm::{Tell, Wish};
use crate::slice::SliceHeader;
use crate::{Image, VideoError};

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) header: SliceHeader,
    /// Nothing would make it shorter but a smaller picture: so many bytes more were made than the rate has.
    pub(crate) behind: Option<usize>,
}

/// Is there an OpenH264?
pub const fn is_available() -> bool {
    cfg!(feature = "openh264")
}

#[cfg(feature = "openh264")]
mod library {
    use std::ffi::{c_int, c_void};
    use std::ptr::NonNull;

    use openh264_sys2 as sys;

    use super::{Image, Made, SliceHeader, Tell, VideoError, Wish};
    use crate::longterm::PERIOD;
    use crate::quantiser::Quantiser;
    use crate::slice::slice_header;

    /// Columns and rows are even, and this many at least.
    const FEWEST: usize = 16;
    /// And at most, on either side (level 5.2).
    const LARGEST: (usize, usize) = (3_840, 2_160);
    /// It knows of no more a second.
    const MOST_FRAMES: u32 = 60;
    /// So often a key frame is made, until it is short enough.
    const TRIES: u32 = 4;

    /// A function of a table of OpenH264's.
    macro_rules! call {
        ($object:expr, $function:ident $(, $argument:expr)*) => {{
            let object = $object.as_ptr();
            ((**object).$function.expect("OpenH264 has all of its functions"))(object $(, $argument)*)
        }};
    }

    fn checked<T: Into<i64>>(code: T) -> Result<(), VideoError> {
        match code.into() {
            0 => Ok(()),
            code => Err(VideoError::OpenH264(code)),
        }
    }

    /// What OpenH264 holds for an encoder.
    #[derive(Debug)]
    pub(crate) struct RawEncoder {
        encoder: NonNull<sys::ISVCEncoder>,
        width: usize,
        height: usize,
        parameters: Box<sys::SEncParamExt>,
        quantiser: Quantiser,
        /// Of the key frame before the next frame.
        idr: u32,
    }

    // SAFETY: OpenH264 keeps nothing of an encoder by thread; whoever has it is the only one that calls.
    unsafe impl Send for RawEncoder {}

    impl RawEncoder {
        pub(crate) fn new(
            width: usize,
            height: usize,
            frame_rate: u32,
            kbps: u32,
            threads: u32,
        ) -> Result<Self, VideoError> {
            let (longer, shorter) = (width.max(height), width.min(height));
            let fits = shorter >= FEWEST && longer <= LARGEST.0 && shorter <= LARGEST.1;
            if !fits || width % 2 + height % 2 > 0 {
                return Err(VideoError::Size { width, height });
            }
            let mut encoder = std::ptr::null_mut();
            // SAFETY: it writes a pointer to an encoder, or leaves null.
            checked(unsafe { sys::source::APILoader::WelsCreateSVCEncoder(&raw mut encoder) })?;
            let encoder = NonNull::new(encoder).ok_or(VideoError::Library)?;
            let (parameters, quantiser) = (Box::default(), Quantiser::new(width * height, frame_rate, kbps));
            // From here on it is freed whatever fails.
            let mut this = Self { encoder, width, height, parameters, quantiser, idr: 0 };
            let mut quiet = sys::WELS_LOG_QUIET;
            this.option(sys::ENCODER_OPTION_TRACE_LEVEL, &mut quiet)?;
            // SAFETY: it fills in what it is given.
            checked(unsafe { call!(encoder, GetDefaultParams, &raw mut *this.parameters) })?;
            set(&mut this.parameters, (width, height), frame_rate, threads);
            // SAFETY: it copies what it is given.
            checked(unsafe { call!(encoder, InitializeExt, &raw const *this.parameters) })?;
            this.option(sys::ENCODER_OPTION_TRACE_LEVEL, &mut quiet)?;
            // As it has them: what is handed in again changes what was changed, and begins nothing anew.
            let to = (&raw mut *this.parameters).cast::<c_void>();
            // SAFETY: this option writes such a structure.
            checked(unsafe { call!(encoder, GetOption, sys::ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, to) })?;
            Ok(this)
        }

        /// Columns and rows of the pictures that it takes.
        pub(crate) fn size(&self) -> (usize, usize) {
            (self.width, self.height)
        }

        pub(crate) fn set_bitrate(&mut self, kbps: u32) {
            self.quantiser.set_bitrate(kbps);
        }

        /// Appends the frame to `buffer`: start codes before each unit, parameter sets before a key frame.
        pub(crate) fn encode(
            &mut self,
            image: &Image,
            wish: Wish,
            tell: Option<Tell>,
            buffer: &mut Vec<u8>,
        ) -> Result<Made, VideoError> {
            if (image.width(), image.height()) != (self.width, self.height) {
                return Err(VideoError::Size { width: image.width(), height: image.height() });
            }
            self.tell(wish, tell)?;
            let begin = buffer.len();
            let mut wish = wish;
            for tries in 1.. {
                let quantiser = self.quantiser.next(wish);
                self.quantise(quantiser)?;
                let header = self.encode_once(image, buffer)?;
                let bits = 8 * (buffer.len() - begin) as u64;
                wish = if header.idr.is_some() { Wish::Key } else { wish };
                if self.quantiser.is_too_long(wish, bits, quantiser) && tries < TRIES {
                    // One that is to be long anyway may as well need nothing.
                    wish = Wish::Key;
                    buffer.truncate(begin);
                    self.tell(wish, None)?;
                    continue;
                }
                self.quantiser.made(wish, bits, quantiser);
                self.idr = header.idr.unwrap_or(self.idr);
                let behind = self.quantiser.behind(wish, quantiser).map(|bits| (bits / 8) as usize);
                return Ok(Made { header, behind });
            }
            unreachable!("it returns after the last of its tries")
        }

        fn encode_once(&mut self, image: &Image, buffer: &mut Vec<u8>) -> Result<SliceHeader, VideoError> {
            let planes = image.planes().map(|plane| plane.as_ptr().cast_mut());
            let strides = image.strides().map(|stride| stride as c_int);
            let picture = sys::SSourcePicture {
                iColorFormat: sys::videoFormatI420,
                iStride: [strides[0], strides[1], strides[2], 0],
                pData: [planes[0], planes[1], planes[2], std::ptr::null_mut()],
                iPicWidth: self.width as c_int,
                iPicHeight: self.height as c_int,
                uiTimeStamp: 0,
                bPsnrY: false,
                bPsnrU: false,
                bPsnrV: false,
            };
            let mut made = sys::SFrameBSInfo::default();
            // SAFETY: the planes have as many rows of their strides as the size says, and outlive the call, which only reads them.
            checked(unsafe { call!(self.encoder, EncodeFrame, &raw const picture, &raw mut made) })?;
            let begin = buffer.len();
            let layers = made.sLayerInfo.get(..made.iLayerNum as usize).unwrap_or_default();
            for layer in layers.iter().filter(|layer| layer.iNalCount > 0) {
                // SAFETY: a layer has so many lengths, and so many bytes as they add up to; they are the encoder's own until it is called
                // again, and copied before.
                unsafe {
                    let lengths =
                        std::slice::from_raw_parts(layer.pNalLengthInByte, layer.iNalCount as usize);
                    let length = lengths.iter().map(|length| *length as usize).sum();
                    buffer.extend_from_slice(std::slice::from_raw_parts(layer.pBsBuf, length));
                }
            }
            // It made no frame, or one that it does not make.
            slice_header(&buffer[begin..]).ok_or(VideoError::OpenH264(-1))
        }

        /// So coarse from the next frame on.
        fn quantise(&mut self, quantiser: usize) -> Result<(), VideoError> {
            let to = &mut self.parameters.sSpatialLayers[0].iDLayerQp;
            if std::mem::replace(to, quantiser as c_int) == quantiser as c_int {
                return Ok(());
            }
            let mut parameters = self.parameters.clone();
            self.option(sys::ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, &mut *parameters)
        }

        /// What it has to know before it makes a frame.
        fn tell(&mut self, wish: Wish, tell: Option<Tell>) -> Result<(), VideoError> {
            if let Some(tell) = tell {
                let (what, frame_num) = match tell {
                    Tell::Kept(frame_num) => (sys::LTR_MARKING_SUCCESS, frame_num),
                    Tell::Lost(frame_num) => (sys::LTR_MARKING_FAILED, frame_num),
                };
                let mut mark = sys::SLTRMarkingFeedback {
                    uiFeedbackType: what as u32,
                    uiIDRPicId: self.idr,
                    iLTRFrameNum: frame_num.into(),
                    iLayerId: 0,
                };
                self.option(sys::ENCODER_LTR_MARKING_FEEDBACK, &mut mark)?;
            }
            match wish {
                Wish::Next => Ok(()),
                // SAFETY: the encoder lives as long as `self`.
                Wish::Key => checked(unsafe { call!(self.encoder, ForceIntraFrame, true) }),
                Wish::Recover => {
                    // Frame 0 was decoded, and nobody knows which last: the next refers to what was confirmed.
                    let mut request = sys::SLTRRecoverRequest {
                        uiFeedbackType: sys::LTR_RECOVERY_REQUEST as u32,
                        uiIDRPicId: self.idr,
                        iLastCorrectFrameNum: 0,
                        iCurrentFrameNum: -1,
                        iLayerId: 0,
                    };
                    self.option(sys::ENCODER_LTR_RECOVERY_REQUEST, &mut request)
                }
            }
        }

        /// An option whose value is a `T`.
        fn option<T>(&self, option: sys::ENCODER_OPTION, value: &mut T) -> Result<(), VideoError> {
            // SAFETY: whoever calls this has a `T` that OpenH264 names for that option (`codec_app_def.h`); it copies it.
            checked(unsafe { call!(self.encoder, SetOption, option, (value as *mut T).cast::<c_void>()) })
        }
    }

    impl Drop for RawEncoder {
        fn drop(&mut self) {
            // SAFETY: nobody else has it, and nobody has it after this. One that was never initialised may be uninitialised.
            unsafe {
                call!(self.encoder, Uninitialize);
                sys::source::APILoader::WelsDestroySVCEncoder(self.encoder.as_ptr());
            }
        }
    }

    /// Real time: a frame at once for each picture, none left out, none that refers to a later one.
    fn set(to: &mut sys::SEncParamExt, (width, height): (usize, usize), frame_rate: u32, threads: u32) {
        let rate = frame_rate.min(MOST_FRAMES) as f32;
        to.iUsageType = sys::CAMERA_VIDEO_REAL_TIME;
        (to.iPicWidth, to.iPicHeight) = (width as c_int, height as c_int);
        (to.iRCMode, to.fMaxFrameRate) = (sys::RC_OFF_MODE, rate);
        to.bEnableFrameSkip = false;
        (to.iMinQp, to.iMaxQp) = (0, 51);
        to.bEnableAdaptiveQuant = false;
        (to.iTemporalLayerNum, to.iSpatialLayerNum) = (1, 1);
        to.iComplexityMode = sys::LOW_COMPLEXITY;
        // Key frames are made when they are asked for.
        to.uiIntraPeriod = 0;
        to.bEnableSceneChangeDetect = false;
        to.eSpsPpsIdStrategy = sys::CONSTANT_ID;
        to.bEnableLongTermReference = true;
        to.iLtrMarkPeriod = PERIOD;
        to.iMultipleThreadIdc = threads.clamp(1, 4) as u16;
        to.iEntropyCodingModeFlag = 0;
        let layer = &mut to.sSpatialLayers[0];
        (layer.iVideoWidth, layer.iVideoHeight, layer.fFrameRate) = (width as c_int, height as c_int, rate);
        layer.uiProfileIdc = sys::PRO_BASELINE;
        // What the first slice says holds for the frame.
        layer.sSliceArgument.uiSliceMode = sys::SM_SINGLE_SLICE;
        layer.sSliceArgument.uiSliceNum = 1;
    }

    /// What OpenH264 holds for a decoder.
    #[derive(Debug)]
    pub(crate) struct RawDecoder(NonNull<sys::ISVCDecoder>);

    // SAFETY: as for the encoder.
    unsafe impl Send for RawDecoder {}

    impl RawDecoder {
        pub(crate) fn new() -> Result<Self, VideoError> {
            let mut decoder = std::ptr::null_mut();
            // SAFETY: it writes a pointer to a decoder, or leaves null.
            checked(unsafe { sys::source::APILoader::WelsCreateDecoder(&raw mut decoder) })?;
            let this = Self(NonNull::new(decoder).ok_or(VideoError::Library)?);
            let mut quiet = sys::WELS_LOG_QUIET;
            let quiet = (&raw mut quiet).cast::<c_void>();
            let mut parameters = sys::SDecodingParam::default();
            parameters.sVideoProperty.eVideoBsType = sys::VIDEO_BITSTREAM_AVC;
            // What is missing is not made up.
            parameters.eEcActiveIdc = sys::ERROR_CON_DISABLE;
            // SAFETY: it copies what it is given, a number for that option.
            unsafe {
                checked(call!(this.0, SetOption, sys::DECODER_OPTION_TRACE_LEVEL, quiet))?;
                checked(call!(this.0, Initialize, &raw const parameters))?;
                checked(call!(this.0, SetOption, sys::DECODER_OPTION_TRACE_LEVEL, quiet))?;
            }
            Ok(this)
        }

        /// The picture of a whole frame. OpenH264 refuses sizes beyond level 5.2, 4096 by 2304, before it takes memory for them.
        pub(crate) fn decode(&mut self, frame: &[u8]) -> Result<Image, VideoError> {
            let length = c_int::try_from(frame.len()).map_err(|_| VideoError::OpenH264(-1))?;
            let mut planes = [std::ptr::null_mut::<u8>(); 3];
            let mut info = sys::SBufferInfo::default();
            // SAFETY: the bytes outlive the call, which reads no more than `length` of them; it writes three pointers and what is behind them.
            let failed = unsafe {
                call!(self.0, DecodeFrameNoDelay, frame.as_ptr(), length, planes.as_mut_ptr(), &raw mut info)
            };
            checked(failed)?;
            if info.iBufferStatus != 1 {
                // Of a profile that knows pictures that are shown later than others it keeps one. None is meant to be.
                // SAFETY: as above.
                checked(unsafe { call!(self.0, FlushFrame, planes.as_mut_ptr(), &raw mut info) })?;
            }
            if info.iBufferStatus != 1 || planes.iter().any(|plane| plane.is_null()) {
                return Err(VideoError::OpenH264(-1));
            }
            // SAFETY: it is the only one of its kinds, and was written.
            let layout = unsafe { info.UsrData.sSystemBuffer };
            let (width, height) = (layout.iWidth as usize, layout.iHeight as usize);
            if layout.iFormat != sys::videoFormatI420 {
                return Err(VideoError::Size { width, height });
            }
            let mut image = Image::new(width, height)?;
            let half = image.strides()[1];
            for (at, plane) in image.planes_mut().into_iter().enumerate() {
                let (columns, stride) =
                    if at == 0 { (width, layout.iStride[0]) } else { (half, layout.iStride[1]) };
                for (row, line) in plane.chunks_exact_mut(columns).enumerate() {
                    // SAFETY: OpenH264's planes have as many rows as its size says, each of at least so many columns, `stride` apart; they are
                    // the decoder's own until it is called again.
                    line.copy_from_slice(unsafe {
                        std::slice::from_raw_parts(planes[at].offset(row as isize * stride as isize), columns)
                    });
                }
            }
            Ok(image)
        }
    }

    impl Drop for RawDecoder {
        fn drop(&mut self) {
            // SAFETY: nobody else has it, and nobody has it after this.
            unsafe {
                call!(self.0, Uninitialize);
                sys::source::APILoader::WelsDestroyDecoder(self.0.as_ptr());
            }
        }
    }
}

#[cfg(not(feature = "openh264"))]
mod library {
    use super::{Image, Made, Tell, VideoError, Wish};

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum RawEncoder {}

    impl RawEncoder {
        pub(crate) fn new(_: usize, _: usize, _: u32, _: u32, _: u32) -> Result<Self, VideoError> {
            Err(VideoError::NoH264)
        }

        pub(crate) fn size(&self) -> (usize, usize) {
            match *self {}
        }

        pub(crate) fn set_bitrate(&mut self, _: u32) {
            match *self {}
        }

        pub(crate) fn encode(
            &mut self,
            _: &Image,
            _: Wish,
            _: Option<Tell>,
            _: &mut Vec<u8>,
        ) -> Result<Made, VideoError> {
            match *self {}
        }
    }

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum RawDecoder {}

    impl RawDecoder {
        pub(crate) fn new() -> Result<Self, VideoError> {
            Err(VideoError::NoH264)
        }

        pub(crate) fn decode(&mut self, _: &[u8]) -> Result<Image, VideoError> {
            match *self {}
        }
    }
}

pub(crate) use library::{RawDecoder, RawEncoder};
