//! What a cellular radio spends, by a published model of LTE: Huang, Qian, Gerber, Mao, Sen, Spatscheck, *A Close Examination of
//! Performance and Power Characteristics of 4G LTE Networks*, MobiSys 2012, table 4.

/// On a megabit sent and on one received, beside what being awake costs, J.
const JOULES_PER_MBIT: (f64, f64) = (0.43839, 0.05197);

/// What being awake costs, W. Who sends every few milliseconds never sleeps: it is the same over every transport.
const AWAKE_W: f64 = 1.28804;

/// What an end's radio spends on the bytes that it sends and receives, mJ.
pub fn radio_mj(sent: u64, received: u64) -> f64 {
    let mbit = |bytes: u64| bytes as f64 * 8.0 / 1e6;
    (mbit(sent) * JOULES_PER_MBIT.0 + mbit(received) * JOULES_PER_MBIT.1) * 1e3
}

/// What it spends on being awake for so long, mJ.
pub fn awake_mj(seconds: f64) -> f64 {
    seconds * AWAKE_W * 1e3
}
