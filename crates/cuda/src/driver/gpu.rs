//! One GPU through the driver.

#![allow(non_snake_case, reason = "the libraries' own names")]

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

use super::compiler::Compiler;
use super::library::{folders, open, table};
use super::staging::{MOST_STAGED, STAGING, Staging};
use crate::error::CudaError;
use crate::runtime::{Function, KernelName, Recording, Runtime};

const ADVICE: &str = "install NVIDIA's driver (CUDA 12 or later); without it the CPU serves";

table! {
    /// The driver's functions. Handles are addresses; device memory is a number.
    Driver {
        cuInit(u32);
        cuDriverGetVersion(*mut i32);
        cuDeviceGetCount(*mut i32);
        cuDeviceGet(*mut i32, i32);
        cuDeviceGetName(*mut c_char, i32, i32);
        cuDeviceGetAttribute(*mut i32, i32, i32);
        cuDeviceTotalMem_v2(*mut usize, i32);
        cuDevicePrimaryCtxRetain(*mut *mut c_void, i32);
        cuDevicePrimaryCtxRelease_v2(i32);
        cuCtxSetCurrent(*mut c_void);
        cuStreamCreate(*mut *mut c_void, u32);
        cuStreamDestroy_v2(*mut c_void);
        cuStreamSynchronize(*mut c_void);
        cuStreamBeginCapture_v2(*mut c_void, i32);
        cuStreamEndCapture(*mut c_void, *mut *mut c_void);
        cuGraphInstantiateWithFlags(*mut *mut c_void, *mut c_void, u64);
        cuGraphLaunch(*mut c_void, *mut c_void);
        cuGraphDestroy(*mut c_void);
        cuGraphExecDestroy(*mut c_void);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemAlloc_v2(*mut u64, usize);
        cuMemFree_v2(u64);
        cuMemHostAlloc(*mut *mut c_void, usize, u32);
        cuMemFreeHost(*mut c_void);
        cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, *mut c_void);
        cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, *mut c_void);
        cuMemcpyDtoDAsync_v2(u64, u64, usize, *mut c_void);
        cuMemsetD8Async(u64, u8, usize, *mut c_void);
        cuModuleLoadData(*mut *mut c_void, *const c_void);
        cuModuleUnload(*mut c_void);
        cuModuleGetFunction(*mut *mut c_void, *mut c_void, *const c_char);
        cuLaunchKernel(*mut c_void, u32, u32, u32, u32, u32, u32, u32, *mut c_void, *mut *mut c_void, *mut *mut c_void);
        cuGetErrorName(i32, *mut *const c_char);
        cuGetErrorString(i32, *mut *const c_char);
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// Errors after which the process cannot use the device any more: illegal address, hardware fault, and their like.
const LOST: [i32; 9] = [700, 702, 710, 713, 714, 715, 716, 717, 719];
/// Attributes: multiprocessors, and the two numbers of the compute capability.
const MULTIPROCESSORS: i32 = 16;
const MAJOR: i32 = 75;
const MINOR: i32 = 76;

/// What is known of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    /// Its number.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of memory, and those that are free.
    pub memory: usize,
    /// Bytes of memory that are free, as far as known.
    pub free: Option<usize>,
    /// The CUDA version that the driver serves.
    pub driver: (i32, i32),
}

impl GpuFacts {
    /// What kernels are compiled for: `sm_90a`.
    pub fn architecture(&self) -> String {
        let (major, minor) = self.capability;
        // From Hopper on, the architecture's own instructions want its own target.
        let suffix = if major >= 9 { "a" } else { "" };
        format!("sm_{major}{minor}{suffix}")
    }
}

impl Driver {
    fn open() -> Result<Driver, CudaError> {
        let library = open(&["libcuda.so.1", "libcuda.so"], &folders(None), ADVICE)?;
        let driver = Driver::new(library, ADVICE)?;
        // SAFETY: the only flags that exist.
        driver.check("cuInit", unsafe { (driver.cuInit)(0) })?;
        Ok(driver)
    }

    /// The error of a call, if it failed.
    fn check(&self, call: &str, code: i32) -> Result<(), CudaError> {
        if code == 0 {
            return Ok(());
        }
        let word = |function: unsafe extern "C" fn(i32, *mut *const c_char) -> i32| {
            let mut text = std::ptr::null();
            // SAFETY: the driver gives the address of a constant text, or none.
            let found = unsafe { function(code, &mut text) };
            // SAFETY: a text that the driver gave ends in zero.
            (found == 0 && !text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = word(self.cuGetErrorName).unwrap_or_else(|| format!("error {code}"));
        let what = word(self.cuGetErrorString).map_or(name.clone(), |text| format!("{name}: {text}"));
        if LOST.contains(&code) {
            return Err(CudaError::Lost { what: format!("{call}: {what}") });
        }
        Err(CudaError::Call { call: call.into(), what })
    }

    fn facts(&self, index: usize) -> Result<(i32, GpuFacts), CudaError> {
        let (mut device, mut version, mut memory) = (0, 0, 0);
        let mut name = [0u8; 256];
        // SAFETY: each call writes one number, or a text within the length given.
        unsafe {
            self.check("cuDeviceGet", (self.cuDeviceGet)(&mut device, index as i32))?;
            self.check("cuDriverGetVersion", (self.cuDriverGetVersion)(&mut version))?;
            self.check("cuDeviceTotalMem", (self.cuDeviceTotalMem_v2)(&mut memory, device))?;
            self.check("cuDeviceGetName", (self.cuDeviceGetName)(name.as_mut_ptr().cast(), 255, device))?;
        }
        let attribute = |attribute: i32| {
            let mut value = 0;
            // SAFETY: one number is written.
            let code = unsafe { (self.cuDeviceGetAttribute)(&mut value, attribute, device) };
            self.check("cuDeviceGetAttribute", code).map(|()| value)
        };
        let name = CStr::from_bytes_until_nul(&name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let facts = GpuFacts {
            index,
            name,
            capability: (attribute(MAJOR)?, attribute(MINOR)?),
            multiprocessors: attribute(MULTIPROCESSORS)?.max(1) as usize,
            memory,
            free: None,
            driver: (version / 1000, version % 1000 / 10),
        };
        Ok((device, facts))
    }

    fn count(&self) -> Result<usize, CudaError> {
        let mut count = 0;
        // SAFETY: one number is written.
        self.check("cuDeviceGetCount", unsafe { (self.cuDeviceGetCount)(&mut count) })?;
        Ok(count.max(0) as usize)
    }
}

/// The GPUs of this machine.
///
/// # Errors
/// [`CudaError::Missing`] when there is no driver.
pub fn gpus() -> Result<Vec<GpuFacts>, CudaError> {
    let driver = Driver::open()?;
    (0..driver.count()?).map(|index| driver.facts(index).map(|(_, facts)| facts)).collect()
}

/// One GPU, its context and its stream.
pub struct Gpu {
    inner: Arc<Inner>,
    compiler: Compiler,
}

struct Inner {
    driver: Driver,
    facts: GpuFacts,
    device: i32,
    context: *mut c_void,
    stream: *mut c_void,
    staging: Mutex<Staging>,
}

// SAFETY: the driver's handles may be used from any thread that makes the context current, which every call does first.
unsafe impl Send for Inner {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: all were made by `Gpu::open` and are not used after this.
        unsafe {
            (self.driver.cuCtxSetCurrent)(self.context);
            (self.driver.cuStreamDestroy_v2)(self.stream);
            (self.driver.cuMemFreeHost)(self.staging().start.cast());
            (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}

impl Inner {
    fn call(&self, name: &str, call: impl FnOnce(&Driver) -> i32) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as this.
        self.driver.check("cuCtxSetCurrent", unsafe { (self.driver.cuCtxSetCurrent)(self.context) })?;
        self.driver.check(name, call(&self.driver))
    }

    fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for everything, after which nobody reads what was staged.
    fn wait(&self, staging: &mut Staging) -> Result<(), CudaError> {
        let stream = self.stream;
        // SAFETY: the stream lives as long as this.
        self.call("cuStreamSynchronize", |driver| unsafe { (driver.cuStreamSynchronize)(stream) })?;
        staging.used = 0;
        Ok(())
    }

    /// Asks for a copy from the host's memory, which must stay as it is until the device has read it.
    fn copy_in(&self, to: u64, from: *const u8, bytes: usize) -> Result<(), CudaError> {
        let stream = self.stream;
        // SAFETY: both hold as many bytes. From memory that is not pinned the driver has copied all of it to its own when
        // it returns.
        self.call("cuMemcpyHtoDAsync", |driver| unsafe {
            (driver.cuMemcpyHtoDAsync_v2)(to, from.cast(), bytes, stream)
        })
    }

    /// Asks for a copy to the host's memory, which must stay until the device has written it.
    fn copy_out(&self, to: *mut u8, from: u64, bytes: usize) -> Result<(), CudaError> {
        let stream = self.stream;
        // SAFETY: both hold as many bytes.
        self.call("cuMemcpyDtoHAsync", |driver| unsafe {
            (driver.cuMemcpyDtoHAsync_v2)(to.cast(), from, bytes, stream)
        })
    }
}

impl Gpu {
    /// Opens the GPU of that number.
    ///
    /// # Errors
    /// [`CudaError::Missing`] without a driver, [`CudaError::Call`] when there is no such GPU or it cannot be used.
    pub fn open(index: usize, compiler: Compiler) -> Result<Gpu, CudaError> {
        let driver = Driver::open()?;
        let count = driver.count()?;
        if index >= count {
            let what = format!("there is no GPU {index}: this machine has {count}");
            return Err(CudaError::Call { call: "opening the GPU".into(), what });
        }
        let (device, facts) = driver.facts(index)?;
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut staging = std::ptr::null_mut();
        // SAFETY: the handles have places; the stream does not wait for the legacy one (flag 1).
        unsafe {
            driver
                .check("cuDevicePrimaryCtxRetain", (driver.cuDevicePrimaryCtxRetain)(&mut context, device))?;
            driver.check("cuCtxSetCurrent", (driver.cuCtxSetCurrent)(context))?;
            driver.check("cuStreamCreate", (driver.cuStreamCreate)(&mut stream, 1))?;
            driver.check("cuMemHostAlloc", (driver.cuMemHostAlloc)(&mut staging, STAGING, 0))?;
        }
        let staging = Mutex::new(Staging { start: staging.cast(), used: 0 });
        Ok(Gpu { inner: Arc::new(Inner { driver, facts, device, context, stream, staging }), compiler })
    }

    /// What is known of it, free memory included.
    pub fn facts(&self) -> GpuFacts {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two numbers are written.
        let read = self
            .inner
            .call("cuMemGetInfo", |driver| unsafe { (driver.cuMemGetInfo_v2)(&mut free, &mut total) });
        GpuFacts { free: read.is_ok().then_some(free), ..self.inner.facts.clone() }
    }
}

/// A loaded module.
struct Module {
    inner: Arc<Inner>,
    handle: *mut c_void,
}

// SAFETY: as for `Inner`.
unsafe impl Send for Module {}
// SAFETY: as for `Inner`.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module was loaded, and its functions are gone with it.
        let _ = self.inner.call("cuModuleUnload", |driver| unsafe { (driver.cuModuleUnload)(self.handle) });
    }
}

/// A recorded graph, ready to launch.
struct Executable {
    inner: Arc<Inner>,
    handle: *mut c_void,
}

// SAFETY: as for `Inner`.
unsafe impl Send for Executable {}
// SAFETY: as for `Inner`.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the graph was made, and is not launched after this.
        let _ = self
            .inner
            .call("cuGraphExecDestroy", |driver| unsafe { (driver.cuGraphExecDestroy)(self.handle) });
    }
}

impl Runtime for Gpu {
    fn describe(&self) -> String {
        let GpuFacts { index, name, capability: (major, minor), memory, .. } = &self.inner.facts;
        format!("CUDA {index}: {name}, sm_{major}{minor}, {} GiB", memory >> 30)
    }
    fn most_blocks(&self) -> usize {
        self.inner.facts.multiprocessors * 16
    }
    fn allocate(&self, bytes: usize) -> Result<u64, CudaError> {
        let mut address = 0;
        let mut full = false;
        let result = self.inner.call("cuMemAlloc", |driver| {
            // SAFETY: one address is written.
            let code = unsafe { (driver.cuMemAlloc_v2)(&mut address, bytes.max(1)) };
            full = code == OUT_OF_MEMORY;
            code
        });
        match full {
            true => Err(CudaError::OutOfMemory { wanted: bytes }),
            false => result.map(|()| address),
        }
    }
    fn free(&self, address: u64) {
        // SAFETY: the address came from `allocate`. The driver waits for what still uses it.
        let _ = self.inner.call("cuMemFree", |driver| unsafe { (driver.cuMemFree_v2)(address) });
    }
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), CudaError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() > MOST_STAGED {
            return self.inner.copy_in(to, bytes.as_ptr(), bytes.len());
        }
        let mut staging = self.inner.staging();
        if !staging.fits(bytes.len()) {
            self.inner.wait(&mut staging)?;
        }
        let room = staging.room(bytes.len());
        // SAFETY: the room is as large, nobody else's, and read by no copy under way.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len()) };
        self.inner.copy_in(to, room, bytes.len())
    }
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut staging = self.inner.staging();
        if bytes.len() > MOST_STAGED || !staging.fits(bytes.len()) {
            self.inner.copy_out(bytes.as_mut_ptr(), from, bytes.len())?;
            return self.inner.wait(&mut staging);
        }
        let room = staging.room(bytes.len());
        self.inner.copy_out(room, from, bytes.len())?;
        self.inner.wait(&mut staging)?;
        // SAFETY: the room is as large, and the device has written it.
        unsafe { std::ptr::copy_nonoverlapping(room, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.inner.stream;
        // SAFETY: both places hold as many bytes.
        self.inner.call("cuMemcpyDtoDAsync", |driver| unsafe {
            (driver.cuMemcpyDtoDAsync_v2)(to, from, bytes, stream)
        })
    }
    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), CudaError> {
        let stream = self.inner.stream;
        // SAFETY: the memory holds as many bytes.
        self.inner
            .call("cuMemsetD8Async", |driver| unsafe { (driver.cuMemsetD8Async)(to, byte, bytes, stream) })
    }
    fn compile(&self, source: &str, kernels: &[KernelName<'_>]) -> Result<Vec<Function>, CudaError> {
        let compiled = self.compiler.compile(source, &self.inner.facts.architecture())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the code is a whole module for this architecture.
        self.inner.call("cuModuleLoadData", |driver| unsafe {
            (driver.cuModuleLoadData)(&mut handle, compiled.code.as_ptr().cast())
        })?;
        let module = Arc::new(Module { inner: Arc::clone(&self.inner), handle });
        let mut functions = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            let name = format!("{}\0", kernel.name);
            let mut function = std::ptr::null_mut();
            // SAFETY: the module is loaded, and the name ends in zero.
            self.inner.call("cuModuleGetFunction", |driver| unsafe {
                (driver.cuModuleGetFunction)(&mut function, module.handle, name.as_ptr().cast())
            })?;
            functions.push(Function {
                handle: function as u64,
                module: Arc::clone(&module) as Arc<dyn Send + Sync>,
            });
        }
        Ok(functions)
    }
    fn launch(&self, function: &Function, grid: u32, block: u32, arguments: &[u64]) -> Result<(), CudaError> {
        let mut arguments = arguments.to_vec();
        let mut places: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| std::ptr::from_mut(argument).cast()).collect();
        let stream = self.inner.stream;
        // SAFETY: the function is of a loaded module and takes as many addresses as were declared for it; the driver
        // copies them before it returns.
        self.inner.call("cuLaunchKernel", |driver| unsafe {
            (driver.cuLaunchKernel)(
                function.handle as *mut c_void,
                grid,
                1,
                1,
                block,
                1,
                1,
                0,
                stream,
                places.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }
    fn synchronise(&self) -> Result<(), CudaError> {
        self.inner.wait(&mut self.inner.staging())
    }
    fn record(&self) -> Result<bool, CudaError> {
        let stream = self.inner.stream;
        let begin = |driver: &Driver| {
            // SAFETY: the stream is not recording; mode 1 keeps the rule to this thread.
            unsafe { (driver.cuStreamBeginCapture_v2)(stream, 1) }
        };
        self.inner.call("cuStreamBeginCapture", begin)?;
        Ok(true)
    }
    fn recorded(&self) -> Result<Recording, CudaError> {
        let stream = self.inner.stream;
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is recording, and the graph has a place.
        self.inner.call("cuStreamEndCapture", |driver| unsafe {
            (driver.cuStreamEndCapture)(stream, &mut graph)
        })?;
        // SAFETY: the graph was just made.
        let made = self.inner.call("cuGraphInstantiate", |driver| unsafe {
            (driver.cuGraphInstantiateWithFlags)(&mut executable, graph, 0)
        });
        // SAFETY: what was instantiated does not need it any more.
        let _ = self.inner.call("cuGraphDestroy", |driver| unsafe { (driver.cuGraphDestroy)(graph) });
        made?;
        let owner = Executable { inner: Arc::clone(&self.inner), handle: executable };
        Ok(Recording { handle: executable as u64, owner: Arc::new(owner) })
    }
    fn replay(&self, recording: &Recording) -> Result<(), CudaError> {
        let stream = self.inner.stream;
        // SAFETY: the recording keeps what it launches.
        self.inner.call("cuGraphLaunch", |driver| unsafe {
            (driver.cuGraphLaunch)(recording.handle as *mut c_void, stream)
        })
    }
}
