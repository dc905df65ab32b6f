//! Arguments `exec:PROGRAM ARGUMENTS`, `python:MODULE:CLASS` and `so101:PORT`: what is started as a device.

use std::process::{Child, Command, Stdio};

use crate::so101;

/// A program and its arguments. No shell sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program(Vec<String>);

/// How they are written.
pub(crate) const FORMS: &str = "so101:PORT, exec:PROGRAM ARGUMENTS, python:MODULE:CLASS, or NAME:ARGUMENT by an entry point of a Python package, such as mujoco:wall";

impl Program {
    /// `exec:` and a command; `None` where the text is for something else.
    pub(crate) fn of_command(text: &str) -> Option<Result<Self, String>> {
        text.strip_prefix("exec:").map(|command| words(command).map(Self))
    }

    /// `None` where the text is for something else. A `group` of names is looked for among Python's entry points.
    pub(crate) fn parse(text: &str, group: Group) -> Option<Result<Self, String>> {
        if let Some(command) = Self::of_command(text) {
            return Some(command);
        }
        if let Some(port) = text.strip_prefix("so101:") {
            return Some(so101::words(port).map(Self));
        }
        if let Some(class) = text.strip_prefix("python:") {
            return Some(class_of(class).map(Self));
        }
        let (name, _) = text.split_once(':')?;
        let is_name =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter);
        let known = OURS.contains(&name) || name.is_empty() || !name.chars().all(is_name);
        (!known).then(|| {
            Ok(Self(vec![
                python(),
                "-m".to_owned(),
                "taut.device".to_owned(),
                group.flag().to_owned(),
                text.to_owned(),
            ]))
        })
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.0
    }

    /// The names of its joints, in its order, where they are known.
    pub(crate) fn joints(&self) -> Option<&'static [&'static str]> {
        match &self.0[..] {
            [_, device, port] if device == "device" && so101::port(port).is_some() => Some(&so101::JOINTS),
            _ => None,
        }
    }

    /// Starts it, with these.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn spawn(&self, stdin: Stdio, stdout: Stdio) -> Result<Child, String> {
        let (name, arguments) = self.0.split_first().ok_or("exec: is followed by a program")?;
        let spawned = Command::new(name).args(arguments).stdin(stdin).stdout(stdout).spawn();
        spawned.map_err(|error| format!("{name}: {error}"))
    }
}

/// Names before a colon that no entry point has.
const OURS: [&str; 7] = ["sim", "demo", "trace", "keyboard", "gamepad", "spacemouse", "lines"];

/// Where a device of that name is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// `taut.robots`.
    Robots,
    /// `taut.inputs`.
    Inputs,
}

impl Group {
    const fn flag(self) -> &'static str {
        match self {
            Self::Robots => "--robot",
            Self::Inputs => "--input",
        }
    }
}

/// That of the environment in which this command is installed, which need not be active; else the first on the path.
fn python() -> String {
    let beside = std::env::current_exe().ok().map(|taut| taut.with_file_name("python3"));
    let beside = beside.filter(|python| python.exists());
    beside.map_or_else(|| "python3".to_owned(), |python| python.display().to_string())
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

fn class_of(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.split('.').all(|part| !part.is_empty() && !part.starts_with('-'))
    };
    match text.split_once(':') {
        Some((module, class)) if is_name(module) && is_name(class) => {
            Ok(vec![python(), "-m".to_owned(), "taut.device".to_owned(), text.to_owned()])
        }
        _ => Err("python: is followed by a module and a class of it, such as python:my_robot:Arm".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        Program::parse(text, Group::Robots).unwrap().unwrap().0
    }

    #[test]
    fn a_program_and_its_arguments_are_parted_at_spaces_and_quotes_hold_them_together() {
        assert_eq!(of("exec:./arm --fast  7"), ["./arm", "--fast", "7"]);
        assert_eq!(
            of(r#"exec:sh -c 'exec "./my arm"' "" a"b c""#),
            ["sh", "-c", "exec \"./my arm\"", "", "ab c"]
        );
        assert_eq!(of("python:my.robot:Arm"), ["python3", "-m", "taut.device", "my.robot:Arm"]);
        for other in ["sim", "sim:wall", "trace:a.csv", "a/b:c", ":x"] {
            assert_eq!(Program::parse(other, Group::Inputs), None, "{other}");
        }
        assert_eq!(of("mujoco:wall"), ["python3", "-m", "taut.device", "--robot", "mujoco:wall"]);
        for wrong in
            ["exec:", "exec:  ", "exec:'arm", "python:", "python:arm", "python::Arm", "python:-m:Arm"]
        {
            assert!(Program::parse(wrong, Group::Robots).unwrap().is_err(), "{wrong}");
        }
    }
}
