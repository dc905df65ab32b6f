//! What is raised.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use taut::{Error as TautError, RecvError, SendError as Unsent};

create_exception!(taut, Error, PyException, "What goes wrong with taut.");
create_exception!(taut, SettingError, Error, "A setting is missing, or cannot be; limits are settings.");
create_exception!(taut, SystemError, Error, "A file, a socket or a thread was refused.");
create_exception!(taut, NotConnectedError, Error, "There was no session, or it was refused.");
create_exception!(taut, LostError, Error, "The session was lost, and did not come back.");
create_exception!(taut, EndedError, Error, "The session has ended.");
create_exception!(taut, RefusedError, Error, "The robot does not do what it is asked.");
create_exception!(taut, SchemaError, Error, "A channel stays closed: its two ends are not declared alike.");
create_exception!(
    taut,
    MessageError,
    Error,
    "A message cannot be sent, or what came is none of this channel's."
);

pub(crate) fn of_error(error: TautError) -> PyErr {
    let text = error.to_string();
    match error {
        TautError::Missing { .. } | TautError::Limits { .. } | TautError::Invalid { .. } => {
            SettingError::new_err(text)
        }
        TautError::NotConnected(_) => NotConnectedError::new_err(text),
        TautError::Lost(_) => LostError::new_err(text),
        TautError::System(_) => SystemError::new_err(text),
        _ => Error::new_err(text),
    }
}

pub(crate) fn of_send(error: &Unsent) -> PyErr {
    let text = error.to_string();
    match error {
        Unsent::NotStarted(_) | Unsent::NotConnected(_) => NotConnectedError::new_err(text),
        Unsent::Refused { .. } => SchemaError::new_err(text),
        Unsent::Ended => EndedError::new_err(text),
        _ => MessageError::new_err(text),
    }
}

pub(crate) fn of_recv(error: &RecvError) -> PyErr {
    match error {
        RecvError::Ended => EndedError::new_err(error.to_string()),
        _ => MessageError::new_err(error.to_string()),
    }
}

/// Adds all of them to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, class) in [
        ("Error", py.get_type::<Error>()),
        ("SettingError", py.get_type::<SettingError>()),
        ("SystemError", py.get_type::<SystemError>()),
        ("NotConnectedError", py.get_type::<NotConnectedError>()),
        ("LostError", py.get_type::<LostError>()),
        ("EndedError", py.get_type::<EndedError>()),
        ("RefusedError", py.get_type::<RefusedError>()),
        ("SchemaError", py.get_type::<SchemaError>()),
        ("MessageError", py.get_type::<MessageError>()),
    ] {
        module.add(name, class)?;
    }
    Ok(())
}
