#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| taut_fuzz::picture(data));
