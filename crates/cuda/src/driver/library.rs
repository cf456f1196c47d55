//! Shared libraries found at run time, and typed functions out of them.

use std::path::{Path, PathBuf};

use libloading::Library;

use crate::error::CudaError;

/// Opens the first library that is there: by its names where the system looks, then in folders.
pub(super) fn open(names: &[&str], folders: &[PathBuf], advice: &str) -> Result<Library, CudaError> {
    let by_name = names.iter().map(PathBuf::from);
    let in_folders = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    for path in by_name.chain(in_folders) {
        // SAFETY: loading runs the library's initialisers; these are NVIDIA's own libraries by their fixed names.
        if let Ok(library) = unsafe { Library::new(&path) } {
            return Ok(library);
        }
    }
    let library = names.first().copied().unwrap_or_default().to_string();
    Err(CudaError::Missing { library, advice: advice.into() })
}

/// Folders below which NVIDIA's packages put libraries: the toolkit's, and those of Python packages in a folder that the
/// user names.
pub(super) fn folders(named: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(named) = named {
        folders.push(named.to_path_buf());
        for inner in ["lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"] {
            folders.push(named.join(inner));
        }
    }
    folders.extend(
        ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl/lib"].map(PathBuf::from),
    );
    folders
}

/// A table of functions of one library.
macro_rules! table {
    ($(#[$documentation:meta])* $table:ident { $($name:ident ( $($argument:ty),* );)* }) => {
        $(#[$documentation])*
        pub(super) struct $table {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> i32,)*
            // Keeps the functions' code in memory.
            _library: libloading::Library,
        }

        impl $table {
            /// Looks every function up; a missing one is told.
            pub fn new(library: libloading::Library, advice: &str) -> Result<$table, crate::error::CudaError> {
                $(
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the type is the one that the library's documentation gives for this name.
                    let found = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> i32>(name.as_bytes())
                    };
                    let $name = *found.map_err(|_| crate::error::CudaError::Missing {
                        library: format!("function {}", stringify!($name)),
                        advice: advice.to_string(),
                    })?;
                )*
                Ok($table { $($name,)* _library: library })
            }
        }
    };
}
pub(super) use table;
