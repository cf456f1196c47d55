//! What can go wrong with a GPU, and what to do about it.

use fiddlehead_plan::DeviceError;

/// An error of the driver, the compiler or the device.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CudaError {
    /// A library is not there.
    #[error("{library} was not found: {advice}")]
    Missing {
        /// What was looked for.
        library: String,
        /// What brings it.
        advice: String,
    },
    /// A call failed.
    #[error("{call} failed: {what}")]
    Call {
        /// The function.
        call: String,
        /// The driver's word for it.
        what: String,
    },
    /// The device's memory is full.
    #[error("the GPU is out of memory: {wanted} more bytes were needed")]
    OutOfMemory {
        /// How many.
        wanted: usize,
    },
    /// The device stopped working for this process.
    #[error("the GPU was lost ({what}): restart the process; if it happens again, look at the system's log")]
    Lost {
        /// The driver's word for it.
        what: String,
    },
    /// A kernel's text does not compile.
    #[error("a kernel does not compile:\n{log}")]
    Compile {
        /// The compiler's log.
        log: String,
    },
}

impl From<CudaError> for DeviceError {
    fn from(error: CudaError) -> DeviceError {
        match error {
            CudaError::OutOfMemory { wanted } => DeviceError::OutOfMemory {
                what: "the model on the GPU (a shorter --context needs less)".into(),
                wanted,
            },
            error => DeviceError::Unsupported { what: "the program".into(), why: error.to_string() },
        }
    }
}
