//! What two clocks differ by, from what was seen in both directions.

use super::Seen;

/// A clock is off by no more (RFC 5905, MAXFREQ): what a line says beyond that is the path.
const MAX_SKEW: f64 = 500e-6;

/// A line in time: ns at the first message, and ns more for each message.
#[derive(Clone, Copy)]
struct Line {
    first: f64,
    slope: f64,
}

impl Line {
    fn at(self, number: usize) -> f64 {
        self.first + self.slope * number as f64
    }
}

/// Makes delays of transits by two clocks, of which neither was set and each runs at its own pace: the fastest messages of both directions are taken
/// to have the same delay. An asymmetry of the path that no exchange of clocks can see is in the result, at most half of the shortest round trip.
///
/// The fastest messages of a direction lie on the line below all transits that is nearest to them (Moon, Skelly and Towsley, *Estimation and removal
/// of clock skew from network delay measurements*, INFOCOM 1999). Half the difference of both lines is the difference of the clocks, at each message. Nothing
/// happens where nothing arrived in a direction.
pub fn compare(there: &mut Seen, back: &mut Seen) {
    let (Some(mut up), Some(mut down)) = (fastest(there), fastest(back)) else { return };
    let last = there.arrivals.len().max(back.arrivals.len()).saturating_sub(1);
    if [0, last].into_iter().any(|number| up.at(number) + down.at(number) < 0.0) {
        // Messages would arrive before they left: a path whose delay changed for good. What clocks differ by more and more is seen in both directions.
        let [one, other] = [up.slope, -down.slope];
        let skew = if one * other > 0.0 { one.abs().min(other.abs()).copysign(one) } else { 0.0 };
        (up, down) = (below(there, skew), below(back, -skew));
    }
    let difference = |number: usize| ((up.at(number) - down.at(number)) / 2.0).round() as i64;
    for (seen, sign) in [(there, -1), (back, 1)] {
        for (number, arrival) in seen.arrivals.iter_mut().enumerate() {
            if let Some(arrival) = arrival {
                // What another host says of its clock may be anything.
                arrival.transit_ns =
                    arrival.transit_ns.saturating_add(difference(number).saturating_mul(sign));
            }
        }
    }
}

/// The line of this slope below what arrived.
fn below(seen: &Seen, slope: f64) -> Line {
    let arrivals = seen.arrivals.iter().enumerate();
    let clean =
        arrivals.filter_map(|(number, arrival)| Some((number, arrival.filter(|arrival| !arrival.held)?)));
    let firsts = clean.map(|(number, arrival)| arrival.transit_ns as f64 - slope * number as f64);
    Line { first: firsts.fold(f64::INFINITY, f64::min), slope }
}

/// The edge of the lower convex hull over the middle of what arrived.
fn fastest(seen: &Seen) -> Option<Line> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    for (number, arrival) in seen.arrivals.iter().enumerate() {
        let Some(arrival) = arrival.filter(|arrival| !arrival.held) else { continue };
        let point = (number as f64, arrival.transit_ns as f64);
        while let [.., before, last] = hull[..] {
            if slope(before, last) < slope(last, point) {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let middle = seen.arrivals.len() as f64 / 2.0;
    let right = hull.partition_point(|point| point.0 < middle).clamp(1, hull.len().max(1));
    let (left, right) = (*hull.get(right - 1)?, hull.get(right).copied());
    let most = MAX_SKEW * seen.every.as_nanos() as f64;
    let skew = right.map_or(0.0, |right| slope(left, right).clamp(-most, most));
    Some(Line { first: left.1 - skew * left.0, slope: skew })
}
