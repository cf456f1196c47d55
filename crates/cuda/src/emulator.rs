//! Test support: a [`Runtime`] on the CPU. Modules are compiled by the system's C++ compiler with
//! `kernels/emulator.h` in front; memory is the host's.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use libloading::Library;

use crate::error::CudaError;
use crate::runtime::{Function, KernelName, Recording, Runtime};

const HEADER: &str = include_str!("../kernels/emulator.h");

/// A CPU that runs kernels as a GPU would, slowly.
pub struct Emulator {
    folder: std::path::PathBuf,
    memory: Mutex<HashMap<u64, Vec<u128>>>,
    /// Libraries built so far, by the text that they were built from.
    built: Mutex<HashMap<String, std::path::PathBuf>>,
}

impl Emulator {
    /// An emulator that keeps compiled modules in a folder; `None` when there is no C++ compiler.
    pub fn new(folder: &Path) -> Option<Emulator> {
        let found = Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
        (found && cfg!(target_arch = "x86_64")).then(|| Emulator {
            folder: folder.to_path_buf(),
            memory: Mutex::new(HashMap::new()),
            built: Mutex::new(HashMap::new()),
        })
    }

    /// Whether every byte of a range was allocated.
    fn holds(&self, address: u64, bytes: usize) -> bool {
        let memory = self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        memory.iter().any(|(&start, words)| {
            start <= address && address as usize + bytes <= start as usize + words.len() * 16
        })
    }

    /// The library of a text.
    fn build(&self, text: String) -> Result<std::path::PathBuf, CudaError> {
        let mut built = self.built.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(library) = built.get(&text) {
            return Ok(library.clone());
        }
        let name = format!("m{}", built.len());
        let (written, library) =
            (self.folder.join(format!("{name}.cpp")), self.folder.join(format!("{name}.so")));
        std::fs::write(&written, &text).map_err(|error| failed("write", error))?;
        let output = Command::new("g++")
            .args([
                "-std=c++17",
                "-O1",
                "-march=x86-64-v3",
                "-ffp-contract=off",
                // Else the shared memory of templates would be one for all modules of the process.
                "-fno-gnu-unique",
                "-fPIC",
                "-shared",
                "-w",
                "-o",
            ])
            .arg(&library)
            .arg(&written)
            .output()
            .map_err(|error| failed("g++", error))?;
        if !output.status.success() {
            return Err(CudaError::Compile { log: String::from_utf8_lossy(&output.stderr).into_owned() });
        }
        built.insert(text, library.clone());
        Ok(library)
    }

    fn within(&self, call: &str, address: u64, bytes: usize) -> Result<(), CudaError> {
        match bytes == 0 || self.holds(address, bytes) {
            true => Ok(()),
            false => Err(failed(call, format!("{address:#x} and {bytes} bytes are not allocated"))),
        }
    }
}

fn failed(call: &str, what: impl ToString) -> CudaError {
    CudaError::Call { call: call.into(), what: what.to_string() }
}

impl Runtime for Emulator {
    fn describe(&self) -> String {
        "CUDA emulated on the CPU".into()
    }
    fn most_blocks(&self) -> usize {
        3
    }
    fn allocate(&self, bytes: usize) -> Result<u64, CudaError> {
        // Poisoned, so that a word that nobody writes is seen.
        let words = vec![0x7fc0_dead_7fc0_dead_7fc0_dead_7fc0_dead_u128; bytes.div_ceil(16).max(1)];
        let address = words.as_ptr() as u64;
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(address, words);
        Ok(address)
    }
    fn free(&self, address: u64) {
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&address);
    }
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), CudaError> {
        self.within("upload", to, bytes.len())?;
        // SAFETY: the range is allocated, and the host's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        Ok(())
    }
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.within("download", from, bytes.len())?;
        // SAFETY: the range is allocated, and the host's.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        self.within("copy to", to, bytes)?;
        self.within("copy from", from, bytes)?;
        // SAFETY: both ranges are allocated, and the host's.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }
    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), CudaError> {
        self.within("fill", to, bytes)?;
        // SAFETY: the range is allocated, and the host's.
        unsafe { std::ptr::write_bytes(to as *mut u8, byte, bytes) };
        Ok(())
    }
    fn compile(&self, source: &str, kernels: &[KernelName<'_>]) -> Result<Vec<Function>, CudaError> {
        let mut text = format!("{HEADER}\n{source}\n");
        for kernel in kernels {
            let arguments: Vec<String> =
                (0..kernel.arguments).map(|place| format!("emulator::Any{{a[{place}]}}")).collect();
            text.push_str(&format!(
                "extern \"C\" int run_{0}(const uint64_t* given, unsigned grid, unsigned block) {{\n    return \
                 emulator::launch([](const uint64_t* a) {{ {0}({1}); }}, given, grid, block);\n}}\n",
                kernel.name,
                arguments.join(", ")
            ));
        }
        let library = self.build(text)?;
        // SAFETY: the library was just built from kernels and the emulator, which run no code when loaded.
        let loaded = unsafe { Library::new(&library) }.map_err(|error| failed("dlopen", error))?;
        let mut handles = Vec::new();
        for kernel in kernels {
            let name = format!("run_{}\0", kernel.name);
            // SAFETY: the symbol was generated above with this type.
            let symbol =
                unsafe { loaded.get::<unsafe extern "C" fn(*const u64, u32, u32) -> i32>(name.as_bytes()) }
                    .map_err(|error| failed("dlsym", error))?;
            handles.push(*symbol as usize as u64);
        }
        let module: Arc<dyn Send + Sync> = Arc::new(Mutex::new(loaded));
        Ok(handles.into_iter().map(|handle| Function { handle, module: Arc::clone(&module) }).collect())
    }
    fn launch(&self, function: &Function, grid: u32, block: u32, arguments: &[u64]) -> Result<(), CudaError> {
        // SAFETY: the handle is a function of this type of a module that `function` keeps loaded; one launch at a time,
        // since the executor owns the runtime's one stream.
        let run: unsafe extern "C" fn(*const u64, u32, u32) -> i32 =
            unsafe { std::mem::transmute(function.handle as usize) };
        // SAFETY: the kernel takes as many arguments as were declared when it was compiled.
        match unsafe { run(arguments.as_ptr(), grid, block) } {
            0 => Ok(()),
            _ => Err(failed("launch", "a barrier was not reached by every thread")),
        }
    }
    fn synchronise(&self) -> Result<(), CudaError> {
        Ok(())
    }
    fn record(&self) -> Result<bool, CudaError> {
        Ok(false)
    }
    fn recorded(&self) -> Result<Recording, CudaError> {
        Err(failed("record", "the emulator records nothing"))
    }
    fn replay(&self, _recording: &Recording) -> Result<(), CudaError> {
        Err(failed("replay", "the emulator records nothing"))
    }
}
