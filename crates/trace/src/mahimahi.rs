//! Delivery traces of mahimahi; the rules are those of [`MahimahiTrace`].

use taut_core::{Duration, Time};
use taut_link::{MahimahiError, MahimahiTrace};

use crate::error::{Fault, Problem};
use crate::file::Limits;
use crate::{Data, Format, Opportunities, Recording};

pub(crate) fn read(data: &[u8], limits: &Limits) -> Result<Recording, Fault> {
    let text = crate::csv::utf8(data)?;
    MahimahiTrace::parse(text).map_err(fault)?;
    let millis = text.lines().filter_map(|line| line.trim_end().parse().ok());
    let times: Vec<_> = millis.map(|millis| Time::ZERO + Duration::from_millis(millis)).collect();
    limits.check_rows(times.len()).map_err(Fault::file)?;
    Ok(Recording::new(Format::Mahimahi, Data::Opportunities(Opportunities::new(times))))
}

fn fault(error: MahimahiError) -> Fault {
    let text = error.to_string();
    match error {
        MahimahiError::NotANumber { line }
        | MahimahiError::Decreasing { line, .. }
        | MahimahiError::NoLength { line } => {
            // The place is told in front of the problem already.
            let words = text.strip_prefix(&format!("line {line}: ")).unwrap_or(&text);
            Fault::line(line as u64, Problem::Mahimahi(words.to_owned()))
        }
        MahimahiError::Empty | MahimahiError::TooLong => Fault::file(Problem::Mahimahi(text)),
    }
}
