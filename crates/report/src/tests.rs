//! Whole reports: well-formed, safe, the same every time, and small.

use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::sample;
use super::{campaign_figures, campaign_html, run_figures, run_html, run_text};
use crate::result::{CampaignResult, CycleResult, Distribution, RunResult, Series};

/// Parses as strict XML: every element closed, attributes quoted and unique, entities known.
fn assert_well_formed(document: &str) {
    let mut reader = Reader::from_str(document);
    let mut open = 0_i32;
    loop {
        match reader.read_event() {
            Ok(Event::Eof) => break,
            Ok(Event::Start(tag)) => {
                open += 1;
                tag.attributes().for_each(|attribute| assert!(attribute.is_ok(), "{tag:?}: {attribute:?}"));
            }
            Ok(Event::Empty(tag)) => {
                tag.attributes().for_each(|attribute| assert!(attribute.is_ok(), "{tag:?}: {attribute:?}"));
            }
            Ok(Event::End(_)) => open -= 1,
            Ok(Event::GeneralRef(entity)) => {
                let name: &str = entity.as_ref();
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{name};");
            }
            Ok(_) => {}
            Err(error) => panic!("at byte {}: {error}", reader.error_position()),
        }
    }
    assert_eq!(open, 0, "elements left open");
}

/// What no reader should meet, wherever it is looked for.
fn assert_only_numbers(document: &str) {
    let without_code = document.replace("Infinity", "");
    for word in without_code.split(|c: char| !c.is_ascii_alphabetic()) {
        assert!(!["NaN", "nan", "inf", "None", "Some", "undefined"].contains(&word), "{word} in a report");
    }
}

fn assert_sound(html: &str, figures: &[(String, String)]) {
    for document in figures.iter().map(|(_, svg)| svg.as_str()).chain([html]) {
        assert_well_formed(document);
        assert_only_numbers(document);
    }
    let svgs = html.matches("class=\"chart\"").count();
    assert_eq!(svgs, figures.len(), "the page and the files show the same figures");
}

fn assert_run_sound(run: &RunResult) {
    assert_sound(&run_html(run), &run_figures(run));
}

#[test]
fn a_usual_run_makes_a_sound_report() {
    assert_run_sound(&sample::run());
    assert_run_sound(&sample::failing_run());
    let campaign = sample::campaign();
    assert_sound(&campaign_html(&campaign), &campaign_figures(&campaign));
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    assert_eq!(run_html(&sample::run()), run_html(&sample::run()));
    assert_eq!(run_figures(&sample::run()), run_figures(&sample::run()));
    assert_eq!(campaign_html(&sample::campaign()), campaign_html(&sample::campaign()));
}

#[test]
fn a_report_needs_nothing_but_itself() {
    for html in [run_html(&sample::run()), campaign_html(&sample::campaign())] {
        let foreign = html.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!foreign.contains(reference), "{reference}");
        }
    }
}

#[test]
fn a_report_of_long_series_stays_below_a_megabyte() {
    let mut run = sample::run();
    let more: Vec<Series> = run.series.iter().filter(|series| series.mean.len() == 2000).cloned().collect();
    for (i, mut series) in more.into_iter().enumerate() {
        series.name = format!("another {i}");
        run.series.push(series);
    }
    let size = run_html(&run).len();
    assert!(size < 1_000_000, "{size} bytes");
}

#[test]
fn what_a_scenario_says_cannot_become_markup() {
    let evil = "</script></text><script>alert(1)</script>\"'&\u{0}<b onload=x> d_<i>";
    let mut run = sample::failing_run();
    run.title = evil.to_owned();
    run.description = evil.to_owned();
    run.taut = evil.to_owned();
    run.scenario = evil.to_owned();
    run.inputs[0].path = evil.to_owned();
    run.inputs[0].sha256 = evil.to_owned();
    run.verdict.limits[3].stream = evil.to_owned();
    run.verdict.limits[3].quantity = evil.to_owned();
    run.verdict.limits[3].unit = evil.to_owned();
    run.media[0].stream = evil.to_owned();
    run.media[0].dropped.insert(evil.to_owned(), 1);
    run.skews[0].pair = evil.to_owned();
    run.flows[0].name = evil.to_owned();
    run.flows[0].kind = evil.to_owned();
    run.flows[0].counters.insert(evil.to_owned(), 1);
    run.verdict.limits[4].reason = Some(evil.to_owned());
    run.media[0].refused.insert(evil.to_owned(), 1);
    run.refusals[0].node = evil.to_owned();
    run.refusals[0].refused.insert(evil.to_owned(), 1);
    run.links[0].name = evil.to_owned();
    run.models[0].stream = evil.to_owned();
    run.models[0].rows[0].quantity = format!("d_{evil}");
    run.models[0].rows[0].equation = evil.to_owned();
    run.models[0].conditions[1].name = evil.to_owned();
    run.models[0].conditions[1].explanation = evil.to_owned();
    run.conservation.violations = vec![evil.to_owned()];
    for series in &mut run.series {
        series.name = evil.to_owned();
        series.unit = evil.to_owned();
    }
    run.series[0].plot = evil.to_owned();
    assert_run_sound(&run);
    assert_eq!(run_html(&run).matches("<script>").count(), 1);
    let mut campaign = sample::campaign();
    campaign.title = evil.to_owned();
    let tally = &mut campaign.variants[4].limits[0];
    (tally.stream, tally.quantity, tally.unit) = (evil.to_owned(), evil.to_owned(), evil.to_owned());
    campaign.variants[0].name = evil.to_owned();
    campaign.variants[0].settings[0] = (evil.to_owned(), evil.to_owned());
    campaign.variants[0].measures[0].name = evil.to_owned();
    campaign.variants[0].measures[0].unit = evil.to_owned();
    assert_sound(&campaign_html(&campaign), &campaign_figures(&campaign));
}

fn series(values: &[Option<f64>]) -> Series {
    let [plot, name, unit] = ["delay", "backward haptic", "ms"].map(str::to_owned);
    let values = values.to_vec();
    Series {
        plot,
        name,
        unit,
        start_s: 0.0,
        bucket_s: 1.0,
        min: values.clone(),
        mean: values.clone(),
        max: values,
    }
}

#[test]
fn nothing_measured_is_said_without_figures() {
    let run = sample::empty_run();
    assert_run_sound(&run);
    assert!(run_figures(&run).is_empty());
    let html = run_html(&run);
    assert!(html.contains("Does not meet its limits") && html.contains("No single limit says why"));
    let campaign = CampaignResult { variants: Vec::new(), ..sample::campaign() };
    assert_sound(&campaign_html(&campaign), &campaign_figures(&campaign));
    assert!(campaign_html(&campaign).contains("Nothing was run"));
}

#[test]
fn a_campaign_of_few_variants_has_a_row_for_each_measure() {
    let mut campaign = sample::campaign();
    campaign.variants.truncate(2);
    campaign.variants[1].measures.remove(0);
    let html = campaign_html(&campaign);
    assert_sound(&html, &campaign_figures(&campaign));
    let measure = campaign.variants[0].measures.len();
    assert_eq!(html.matches("<tr><th scope=\"row\">backward").count(), measure);
}

#[test]
fn degenerate_series_are_drawn_as_far_as_they_go() {
    let cases: [(&[Option<f64>], usize); 7] = [
        (&[], 0),
        (&[None, None], 0),
        (&[Some(f64::NAN), Some(f64::INFINITY)], 0),
        (&[Some(12.0)], 1),
        (&[Some(0.0), Some(0.0)], 1),
        (&[Some(1e300), None, Some(-1e300)], 1),
        (&[Some(5.0), Some(f64::NAN), Some(7.0)], 1),
    ];
    for (values, figures) in cases {
        let mut run = sample::empty_run();
        run.series.push(series(values));
        run.warmup_s = 5.0;
        assert_run_sound(&run);
        assert_eq!(run_figures(&run).len(), figures, "{values:?}");
    }
    let mut run = sample::empty_run();
    run.series.push(Series { bucket_s: 0.0, ..series(&[Some(1.0)]) });
    run.series.push(Series { bucket_s: f64::NAN, ..series(&[Some(1.0)]) });
    assert_run_sound(&run);
}

#[test]
fn values_that_are_no_numbers_become_dashes() {
    let mut run = sample::failing_run();
    let broken = Distribution {
        count: 3,
        mean: f64::NAN,
        max: f64::INFINITY,
        cdf: vec![(f64::NAN, 0.5), (1.0, f64::NAN), (7.0, 1.0)],
        ..Distribution::default()
    };
    run.media[0].delay_ms = Some(broken.clone());
    run.media[1].delay_ms = Some(Distribution { cdf: vec![(10.0, 1.0)], ..broken.clone() });
    run.media[2].delay_ms = None;
    run.media[0].loss_percent = Some(f64::NAN);
    run.skews[0].skew_ms = broken;
    run.skews[1].skew_ms = Distribution { cdf: vec![(f64::NAN, 1.0)], ..Distribution::default() };
    run.verdict.limits[3].value = Some(f64::NAN);
    run.verdict.limits[4].limit = 0.0;
    run.verdict.limits[6].limit = f64::INFINITY;
    run.models[0].rows[0].predicted_ms = 0.0;
    run.models[0].rows[1].predicted_ms = f64::NAN;
    run.links[0].utilisation = Some(f64::NAN);
    run.duration_s = f64::NAN;
    run.warmup_s = f64::NAN;
    assert_run_sound(&run);
    let mut campaign = sample::campaign();
    for (i, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300].into_iter().enumerate() {
        let measure = &mut campaign.variants[i].measures[0];
        (measure.mean, measure.min, measure.max) = (value, value, value);
        (measure.ci95, measure.predicted, measure.reported) = (Some(value), Some(value), Some(value));
    }
    assert_sound(&campaign_html(&campaign), &campaign_figures(&campaign));
}

#[test]
fn a_failed_limit_is_named_in_words() {
    let html = run_html(&sample::failing_run());
    assert!(html.contains("Delay of backward haptic is 32.1 ms; the limit is 30 ms."));
    assert!(html.contains("Outside the model's validity"));
    assert!(html.contains("do not add up"));
    assert!(run_html(&sample::run()).contains("All 12 limits are met."));
}

#[test]
fn a_queue_is_drawn_with_its_limit() {
    let figures = run_figures(&sample::run());
    for stem in ["queue", "queue-zoom"] {
        let (_, svg) = figures.iter().find(|(name, _)| name == stem).unwrap();
        assert!(svg.contains("class=\"rule capacity\"") && svg.contains(">limit 14 kB</text>"), "{stem}");
    }
    let mut unlimited = sample::run();
    unlimited.links.iter_mut().for_each(|link| link.queue_limit_bytes = None);
    assert!(run_figures(&unlimited).iter().all(|(_, svg)| !svg.contains("rule capacity")));
}

#[test]
fn each_value_of_a_model_is_drawn_once() {
    let html = run_html(&sample::run());
    let svg =
        &run_figures(&sample::run()).into_iter().find(|(name, _)| name == "delay-backward-haptic").unwrap().1;
    assert_eq!((svg.matches("rule bound").count(), svg.matches(">min</tspan>").count()), (2, 1), "{svg}");
    assert!(
        html.contains("d<sub>min</sub>, mean over TCP&#39;s cycles")
            && html.contains("d<sub>min</sub>, whole run")
    );
}

#[test]
fn a_stream_of_which_nothing_was_delivered_has_dashes_and_no_zero() {
    let mut run = sample::run();
    let medium = &mut run.media[1];
    (medium.delivered, medium.lost) = (0, medium.made);
    (medium.delay_ms, medium.delay_buckets_ms) = (None, None);
    (medium.jitter_ms, medium.jitter_max_ms) = (None, None);
    assert_run_sound(&run);
    let html = run_html(&run);
    // Of delay, and of jitter.
    for columns in [9, 4] {
        let dashes = "<td class=\"n\">–</td>".repeat(columns);
        let row = format!("<tr><th scope=\"row\">backward haptic</th>{dashes}</tr>");
        assert!(html.contains(&row), "{html}");
    }
}

#[test]
fn figures_with_the_same_name_get_files_of_their_own() {
    let mut run = sample::run();
    for (i, series) in run.series.iter_mut().filter(|series| series.plot == "delay").enumerate() {
        series.name = ["→", "←"].map(|arrow| arrow.repeat(i + 1)).concat();
    }
    let mut stems: Vec<String> = run_figures(&run).into_iter().map(|(stem, _)| stem).collect();
    let count = stems.len();
    stems.sort();
    stems.dedup();
    assert_eq!(stems.len(), count);
}

#[test]
fn close_ups_say_where_the_run_was_worst_and_text_and_page_have_its_jitter() {
    let run = sample::run();
    let html = run_html(&run);
    let titled = html.matches("close up around the worst moment, 12.50\u{a0}s").count();
    assert!(titled > 2 && titled == html.matches("close up").count(), "{titled}");
    assert_eq!(html.matches("ended the longest wait").count(), 1, "said once");
    assert!(
        html.contains("delay variation, 99 %") && html.contains("<details>\n<summary>When the model holds")
    );
    let text = run_text(&run);
    let medium = &run.media[1];
    let (jitter, delay) = (medium.jitter_ms.as_ref().unwrap(), medium.delay_ms.as_ref().unwrap());
    let (mean, variation) = (format!("{:.3}", jitter.mean), format!("{:.3}", delay.p99 - delay.min));
    let told = text
        .lines()
        .skip_while(|line| !line.starts_with("jitter"))
        .find(|line| line.contains(&medium.stream))
        .unwrap();
    assert!(told.contains(&mean) && told.ends_with(&variation), "{told}");
}

/// `TAUT_REPORT_SAMPLES=<folder> cargo test` writes the samples there, to be looked at.
#[test]
fn samples_can_be_written_for_a_look() {
    let Ok(folder) = std::env::var("TAUT_REPORT_SAMPLES") else { return };
    let folder = Path::new(&folder);
    let write = |name: &str, content: &str| std::fs::write(folder.join(name), content).unwrap();
    write("run.html", &run_html(&sample::run()));
    write("failing.html", &run_html(&sample::failing_run()));
    write("campaign.html", &campaign_html(&sample::campaign()));
    for (stem, svg) in run_figures(&sample::run()).into_iter().chain(campaign_figures(&sample::campaign())) {
        write(&format!("{stem}.svg"), &svg);
    }
}

#[test]
fn the_last_class_of_cycles_says_that_it_stands_for_more() {
    let mut run = sample::run();
    let cycle = |losses| CycleResult {
        losses,
        cycles: 58,
        floor_mean_ms: 9.0,
        floor_min_ms: 8.0,
        ceiling_mean_ms: 27.0,
        recovery_mean_ms: 100.0,
    };
    run.models[0].cycles = vec![cycle(9), cycle(10)];
    let (text, html) = (run_text(&run), run_html(&run));
    assert!(text.contains("58 cycles that lost 9 "), "{text}");
    assert!(text.contains("58 cycles that lost 10 or more"), "{text}");
    assert!(html.contains(">10 or more<") && html.contains(">9<"), "{html}");
}

/// The numbers of an attribute of a figure.
fn attribute<'a>(svg: &'a str, before: &str) -> &'a str {
    let from = svg.find(before).unwrap_or_else(|| panic!("{before}: {svg}")) + before.len();
    svg[from..].split('"').next().unwrap_or_default()
}

#[test]
fn a_close_up_has_the_area_of_the_figure_beside_it() {
    let figures = run_figures(&sample::run());
    let mut pairs = 0;
    for (stem, close) in figures.iter().filter(|(stem, _)| stem.ends_with("-zoom")) {
        let whole = stem.trim_end_matches("-zoom");
        let (_, whole) = figures.iter().find(|(stem, _)| stem == whole).expect("what it is a close-up of");
        let area = |svg: &str| {
            let plot = &svg[svg.find("class=\"plot\"").unwrap()..];
            (attribute(plot, " x=\"").to_owned(), attribute(plot, " width=\"").to_owned())
        };
        assert_eq!(area(whole), area(close), "{stem}");
        pairs += 1;
    }
    assert!(pairs > 2, "{pairs}");
}

#[test]
fn an_interval_of_a_share_does_not_stretch_the_axis_beyond_what_can_be() {
    let mut campaign = sample::campaign();
    for variant in &mut campaign.variants {
        let loss = &mut variant.measures[3];
        (loss.mean, loss.ci95, loss.min, loss.max) = (50.0, Some(90.0), 0.0, 100.0);
        loss.predicted = Some(50.0);
    }
    let figures = campaign_figures(&campaign);
    let (_, svg) = figures.iter().find(|(stem, _)| stem.ends_with("loss")).unwrap();
    let ends: Vec<f64> = attribute(svg, "data-x=\"").split(' ').filter_map(|end| end.parse().ok()).collect();
    // No symbol at 0 or 100 is cut, and nothing beyond is drawn.
    assert!(-5.0 < ends[0] && ends[0] < 0.0 && 100.0 < ends[1] && ends[1] < 105.0, "{ends:?}");
}

#[test]
fn what_variants_set_is_folded_and_comes_after_what_they_found() {
    let html = campaign_html(&sample::campaign());
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("<h2>At a glance") < at("<h2>Comparison") && at("<h2>Comparison") < at("<h2>Variants"));
    assert!(html.contains("<details><summary>1 key</summary><code>cross.cbr.rate = 0Mbit</code></details>"));
}

#[test]
fn one_noisy_variant_does_not_hide_what_the_others_differ_in() {
    let mut campaign = sample::campaign();
    let drawn = |campaign: &CampaignResult| {
        campaign_figures(campaign).iter().any(|(stem, _)| stem == "backward-video-d-max")
    };
    assert!(drawn(&campaign), "{:?}", campaign_figures(&campaign).iter().map(|(s, _)| s).collect::<Vec<_>>());
    campaign.variants[4].measures[4].ci95 = Some(1e6);
    assert!(drawn(&campaign));
    campaign.variants.iter_mut().for_each(|variant| variant.measures[4].ci95 = Some(1e6));
    assert!(!drawn(&campaign));
}
