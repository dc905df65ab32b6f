//! Arguments `exec:PROGRAM ARGUMENTS`, `python:MODULE:CLASS` and `so101:PORT`: what is started as a device.

use crate::so101;

/// A program and its arguments. No shell sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program(Vec<String>);

/// How they are written.
pub(crate) const FORMS: &str = "so101:PORT, exec:PROGRAM ARGUMENTS, python:MODULE:CLASS";

impl Program {
    /// `None` where the text is for something else.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        if let Some(command) = text.strip_prefix("exec:") {
            return Some(words(command).map(Self));
        }
        if let Some(port) = text.strip_prefix("so101:") {
            return Some(so101::words(port).map(Self));
        }
        Some(python(text.strip_prefix("python:")?).map(Self))
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.0
    }
}

/// At spaces, but not within quotes.
fn words(command: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("exec: {quote} is not closed"));
    }
    words.extend(word);
    if words.is_empty() {
        return Err("exec: is followed by a program and its arguments, such as exec:./arm --fast".to_owned());
    }
    Ok(words)
}

fn python(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.split('.').all(|part| !part.is_empty() && !part.starts_with('-'))
    };
    match text.split_once(':') {
        Some((module, class)) if is_name(module) && is_name(class) => {
            Ok(["python3", "-m", "taut.device", text].map(str::to_owned).to_vec())
        }
        _ => Err("python: is followed by a module and a class of it, such as python:my_robot:Arm".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        Program::parse(text).unwrap().unwrap().0
    }

    #[test]
    fn a_program_and_its_arguments_are_parted_at_spaces_and_quotes_hold_them_together() {
        assert_eq!(of("exec:./arm --fast  7"), ["./arm", "--fast", "7"]);
        assert_eq!(
            of(r#"exec:sh -c 'exec "./my arm"' "" a"b c""#),
            ["sh", "-c", "exec \"./my arm\"", "", "ab c"]
        );
        assert_eq!(of("python:my.robot:Arm"), ["python3", "-m", "taut.device", "my.robot:Arm"]);
        assert_eq!(Program::parse("sim"), None);
        for wrong in
            ["exec:", "exec:  ", "exec:'arm", "python:", "python:arm", "python::Arm", "python:-m:Arm"]
        {
            assert!(Program::parse(wrong).unwrap().is_err(), "{wrong}");
        }
    }
}
