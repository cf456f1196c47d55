//! NVRTC: kernels from text to machine code, kept on disk by what they were made of.

#![allow(non_snake_case, reason = "the libraries' own names")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::library::{folders, open, table};
use crate::error::CudaError;

const ADVICE: &str = "it comes with the CUDA toolkit 12 or 13, or with the Python package nvidia-cuda-nvrtc, whose \
                      folder --nvrtc can name";

table! {
    /// The compiler's functions; a program is a handle.
    Nvrtc {
        nvrtcVersion(*mut i32, *mut i32);
        nvrtcCreateProgram(*mut *mut c_void, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char);
        nvrtcDestroyProgram(*mut *mut c_void);
        nvrtcCompileProgram(*mut c_void, i32, *const *const c_char);
        nvrtcGetCUBINSize(*mut c_void, *mut usize);
        nvrtcGetCUBIN(*mut c_void, *mut c_char);
        nvrtcGetProgramLogSize(*mut c_void, *mut usize);
        nvrtcGetProgramLog(*mut c_void, *mut c_char);
    }
}

/// A compiled module.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Machine code for one architecture.
    pub code: Vec<u8>,
    /// What the compiler said, resources of each kernel included; empty when it came from the cache.
    pub log: String,
    /// Whether it was on disk already.
    pub cached: bool,
}

/// The compiler, and the folder in which it keeps what it made.
pub struct Compiler {
    functions: Nvrtc,
    version: (i32, i32),
    cache: Option<PathBuf>,
    announce: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

impl Compiler {
    /// Opens the compiler. `folder` is where to look besides the system's places; `cache` is made when needed.
    ///
    /// # Errors
    /// [`CudaError::Missing`] names what brings it.
    pub fn open(folder: Option<&Path>, cache: Option<PathBuf>) -> Result<Compiler, CudaError> {
        let folders = folders(folder);
        // The compiler looks its built-in functions up by name, which finds them once they are loaded.
        let builtins =
            ["libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so.12.9", "libnvrtc-builtins.so.12.8"];
        if let Ok(library) = open(&builtins, &folders, ADVICE) {
            std::mem::forget(library);
        }
        let library = open(&["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"], &folders, ADVICE)?;
        let functions = Nvrtc::new(library, ADVICE)?;
        let mut version = (0, 0);
        // SAFETY: two places for whole numbers.
        unsafe { (functions.nvrtcVersion)(&mut version.0, &mut version.1) };
        Ok(Compiler { functions, version, cache, announce: None })
    }

    /// Says, before something is compiled that was not kept, how many kernels it has.
    pub fn announce(self, announce: impl Fn(usize) + Send + Sync + 'static) -> Compiler {
        Compiler { announce: Some(Box::new(announce)), ..self }
    }

    /// The compiler's version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Options for an architecture. Products are not joined with sums unless the text says so.
    fn options(architecture: &str) -> Vec<String> {
        let mut options: Vec<String> =
            ["--std=c++17", "-fmad=false", "-default-device", "--ptxas-options=-v"]
                .map(String::from)
                .to_vec();
        options.insert(0, format!("--gpu-architecture={architecture}"));
        options
    }

    /// Compiles a module for an architecture (`sm_90a`), or takes it from the cache.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the compiler's log.
    pub fn compile(&self, source: &str, architecture: &str) -> Result<Compiled, CudaError> {
        let options = Compiler::options(architecture);
        let kept = self.cache.as_ref().map(|folder| folder.join(self.key(source, &options)));
        if let Some(code) = kept.as_ref().and_then(|path| std::fs::read(path).ok()) {
            return Ok(Compiled { code, log: String::new(), cached: true });
        }
        if let Some(announce) = &self.announce {
            announce(source.matches("__global__").count());
        }
        let compiled = self.run(source, &options)?;
        if let Some(path) = kept {
            keep(&path, &compiled.code);
        }
        Ok(compiled)
    }

    fn key(&self, source: &str, options: &[String]) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{}.{}", self.version.0, self.version.1));
        options.iter().for_each(|option| hash.update(format!("\n{option}")));
        hash.update("\n\n");
        hash.update(source);
        let digest = hash.finalize();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}.cubin")
    }

    fn run(&self, source: &str, options: &[String]) -> Result<Compiled, CudaError> {
        let text = |value: &str| {
            CString::new(value).map_err(|_| CudaError::Compile { log: "the text holds a zero byte".into() })
        };
        let (source, name) = (text(source)?, text("fiddlehead.cu")?);
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let functions = &self.functions;
        let mut program = std::ptr::null_mut();
        let failed = |call: &str, code: i32| CudaError::Call {
            call: call.into(),
            what: format!("NVRTC error {code}"),
        };
        // SAFETY: the strings end in zero and live through the call; there are no headers.
        let code = unsafe {
            (functions.nvrtcCreateProgram)(
                &mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        if code != 0 {
            return Err(failed("nvrtcCreateProgram", code));
        }
        // SAFETY: the program was just made; as many options as are said.
        let compiled =
            unsafe { (functions.nvrtcCompileProgram)(program, pointers.len() as i32, pointers.as_ptr()) };
        let mut size = 0;
        // SAFETY: the program is there, and the size has a place.
        unsafe { (functions.nvrtcGetProgramLogSize)(program, &mut size) };
        let mut log = vec![0u8; size.max(1)];
        // SAFETY: the log has room for as many bytes as the compiler said, its zero included.
        unsafe { (functions.nvrtcGetProgramLog)(program, log.as_mut_ptr().cast()) };
        let log = CStr::from_bytes_until_nul(&log)
            .map(|log| log.to_string_lossy().into_owned())
            .unwrap_or_default();
        let result = match compiled {
            0 => {
                let mut size = 0;
                // SAFETY: as above.
                unsafe { (functions.nvrtcGetCUBINSize)(program, &mut size) };
                let mut code = vec![0u8; size];
                // SAFETY: the code has room for as many bytes as the compiler said.
                let found = unsafe { (functions.nvrtcGetCUBIN)(program, code.as_mut_ptr().cast()) };
                if found == 0 && size > 0 {
                    Ok(Compiled { code, log, cached: false })
                } else {
                    Err(failed("nvrtcGetCUBIN", found))
                }
            }
            _ => Err(CudaError::Compile { log }),
        };
        // SAFETY: the program is not used after this.
        unsafe { (functions.nvrtcDestroyProgram)(&mut program) };
        result
    }
}

/// Keeps code under its name. A cache that cannot be written costs time, not the run.
fn keep(path: &Path, code: &[u8]) {
    let Some(folder) = path.parent() else { return };
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&partial, code))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
}
