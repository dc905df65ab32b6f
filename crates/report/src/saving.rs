//! How few messages a control law needs, as tables.

use std::fmt::Write as _;

use super::format::{law, number, optional};
use super::result::{CopyPoint, SavingPoint, SavingResult};

/// In Markdown: for each law, thing and round trip the fewest messages with which it stays calm; all that was tried; and what copies are worth.
pub(super) fn text(result: &SavingResult) -> String {
    let mut text = "**The fewest that stay calm**\n\n| law | thing | rtt, ms | deadband | sent, % | apart: N | mm | with the work of holding | sent, % | \
        apart: N | mm |\n"
        .to_owned();
    text.push_str(&"| --- ".repeat(11));
    text.push_str("|\n");
    let is_one = |a: &SavingPoint, b: &SavingPoint| {
        a.law == b.law && a.thing == b.thing && a.rtt_ms.total_cmp(&b.rtt_ms).is_eq()
    };
    for points in result.savings.chunk_by(is_one) {
        let first = &points[0];
        let [plain, work] = [false, true].map(|by_work| fewest(points, by_work));
        let head = [law(&first.law, 0.0), first.thing.clone(), number(first.rtt_ms, 4)];
        let _ = writeln!(text, "| {} | {} | {} |", head.join(" | "), cells(plain), cells(work));
    }
    text.push_str("\n**All that was tried**\n\n| law | thing | rtt, ms | k | η | sent, % | calm | ripple, % | apart: N | mm |\n");
    text.push_str(&"| --- ".repeat(10));
    text.push_str("|\n");
    result.savings.iter().for_each(|point| text.push_str(&row(point)));
    text.push_str("\n**Copies on a second line**\n\n| law | thing | rtt, ms | copied, by | % | apart: N | ± | mm | ± |\n");
    text.push_str(&"| --- ".repeat(9));
    text.push_str("|\n");
    result.copies.iter().for_each(|point| text.push_str(&copy(point)));
    text
}

/// Of those that are calm.
fn fewest(points: &[SavingPoint], by_work: bool) -> Option<&SavingPoint> {
    let calm =
        points.iter().filter(|point| point.calm && point.k.is_some() && point.eta.is_some() == by_work);
    calm.min_by(|a, b| a.sent_percent.total_cmp(&b.sent_percent))
}

fn cells(point: Option<&SavingPoint>) -> String {
    let Some(point) = point else { return "none is calm | – | – | –".to_owned() };
    let cells = [
        way(point),
        number(point.sent_percent, 3),
        number(point.felt_apart_n, 2),
        number(point.arm_apart_mm, 2),
    ];
    cells.join(" | ")
}

fn way(point: &SavingPoint) -> String {
    let k = point.k.map_or_else(|| "all".to_owned(), fraction);
    point.eta.map_or_else(|| k.clone(), |eta| format!("{k}, η {}", number(eta, 2)))
}

fn fraction(k: f64) -> String {
    if k.is_finite() { number(k, 2) } else { "∞".to_owned() }
}

fn row(point: &SavingPoint) -> String {
    let cells = [
        law(&point.law, 0.0),
        point.thing.clone(),
        number(point.rtt_ms, 4),
        point.k.map_or_else(|| "–".to_owned(), fraction),
        optional(point.eta, 2),
        number(point.sent_percent, 3),
        if point.calm { "yes" } else { "no" }.to_owned(),
        optional(point.ripple_percent, 2),
        number(point.felt_apart_n, 2),
        number(point.arm_apart_mm, 2),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn copy(point: &CopyPoint) -> String {
    let by = match point.spent_within_ms {
        Some(ms) => format!("reserve, {} ms", number(ms, 4)),
        None => "chance".to_owned(),
    };
    let [felt, arm] = [point.felt_apart_n, point.arm_apart_mm];
    let numbers = [felt[0], felt[1], arm[0], arm[1]].map(|value| number(value, 2));
    let head = [
        law(&point.law, 0.0),
        point.thing.clone(),
        number(point.rtt_ms, 4),
        by,
        number(point.copied_percent, 3),
    ];
    format!("| {} | {} |\n", head.join(" | "), numbers.join(" | "))
}
