//! A frame gate at a router, as `taut gate` attaches one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use taut_lab::run::QdiscGate;
use taut_xdp::{AttachedGate, GateConfig, GateError, Status, VideoFilter};

use crate::{Namespace, RealError};

/// A gate that is attached until it is stopped or dropped.
pub(crate) struct RunningGate {
    stop: Arc<AtomicBool>,
    loops: Option<JoinHandle<Result<Status, RealError>>>,
}

impl RunningGate {
    /// Attaches one at the device on which video enters, which reads a queue of the device `queue` in the same namespace.
    ///
    /// # Errors
    /// When there is no program, or the kernel refuses it.
    pub(crate) fn start(
        gate: &QdiscGate,
        (namespace, device): (&Namespace, &str),
        queue: &str,
    ) -> Result<Self, RealError> {
        let watch = format!("qdisc:{queue}/{}", gate.class).parse().map_err(GateError::from)?;
        let config =
            GateConfig::new(device, vec![VideoFilter::new(gate.config.filter())], watch, gate.config);
        let stop = Arc::new(AtomicBool::new(false));
        let (namespace, stopped) = (namespace.share()?, Arc::clone(&stop));
        let (attached, is_attached) = channel();
        let run = move || {
            let mut gate = AttachedGate::attach(config)?;
            // Whoever waits is told of an error by the thread's end.
            let _ = attached.send(());
            while !stopped.load(Ordering::Relaxed) && gate.turn()? {}
            gate.status()
        };
        let loops = std::thread::spawn(move || Ok(namespace.run(run)??));
        let mut this = Self { stop, loops: Some(loops) };
        match is_attached.recv() {
            Ok(()) => Ok(this),
            Err(_) => Err(this.end().expect_err("one that is not attached has no status")),
        }
    }

    /// Takes it off: what it has done.
    ///
    /// # Errors
    /// When it could not go on before.
    pub(crate) fn stop(mut self) -> Result<Status, RealError> {
        self.end()
    }

    fn end(&mut self) -> Result<Status, RealError> {
        self.stop.store(true, Ordering::Relaxed);
        let loops = self.loops.take().expect("it ends once");
        loops.join().expect("a gate's loop does not panic")
    }
}

impl Drop for RunningGate {
    fn drop(&mut self) {
        if self.loops.is_some() {
            // Whoever wants to know what it did stops it.
            let _ = self.end();
        }
    }
}
