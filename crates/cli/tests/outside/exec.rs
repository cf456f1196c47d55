//! `fiddlehead exec`.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use npyz::{NpyFile, WriterBuilder};
use tempfile::TempDir;

use crate::fiddlehead;

const PRODUCT: &str = "fn main[M, N, K](a: f32[M, K], b: f32[K, N]) -> f32[M, N] =
    each[m in M, n in N] sum[k in K] a[m, k] * b[k, n];
";

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("written");
        self.named(name)
    }

    fn named(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn array(&self, name: &str, shape: &[u64], values: &[f32]) -> String {
        let file = fs::File::create(self.path(name)).expect("created");
        let mut writer =
            npyz::WriteOptions::new().default_dtype().shape(shape).writer(file).begin_nd().expect("begun");
        writer.extend(values.iter().copied()).expect("written");
        writer.finish().expect("finished");
        self.named(name)
    }
}

fn read(path: &Path) -> (Vec<u64>, Vec<f32>) {
    let file =
        NpyFile::new(BufReader::new(fs::File::open(path).expect("it was written"))).expect("a .npy file");
    (file.shape().to_vec(), file.into_vec().expect("floats"))
}

#[test]
fn arrays_go_in_and_come_out() {
    let folder = Folder::new();
    let program = folder.text("product.fh", PRODUCT);
    let a = folder.array("a.npy", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = folder.array("b.npy", &[3, 1], &[1.0, 10.0, 100.0]);
    let inputs = [format!("a={a}"), format!("b={b}")];
    let flags = ["exec", &program, "--input", &inputs[0], "--input", &inputs[1]];
    let said = fiddlehead(&[&flags[..], &["--output", &folder.named("c.npy")]].concat()).succeeded();
    assert_eq!(said, "");
    assert_eq!(read(&folder.path("c.npy")), (vec![2, 1], vec![321.0, 654.0]));
    assert_eq!(fiddlehead(&flags).succeeded(), "result: f32[2, 1] = 321, 654\n");
}

#[test]
fn random_inputs_are_decided_by_their_seed() {
    let folder = Folder::new();
    let program = folder.text("product.fh", PRODUCT);
    let run = |seed: &str| {
        let (a, b) = (format!("a=random:{seed}"), format!("b=random:{seed}"));
        let sizes = ["--dim", "M=2", "--dim", "N=3", "--dim", "K=4"];
        fiddlehead(&[&["exec", &program, "--input", &a, "--input", &b][..], &sizes].concat()).succeeded()
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn several_results_and_scalars() {
    let folder = Folder::new();
    let program = folder.text(
        "two.fh",
        "fn main[N](x: f32[N], by: f32) -> (f32[N], i32) = (each[i in N] x[i] * by, N + 0);\n",
    );
    let x = format!("x={}", folder.array("x.npy", &[3], &[1.0, 2.0, 4.0]));
    let output = folder.named("y.npy");
    let ran = fiddlehead(&["exec", &program, "--input", &x, "--input", "by=0.5", "--output", &output]);
    ran.succeeded();
    assert_eq!(read(&folder.path("y0.npy")), (vec![3], vec![0.5, 1.0, 2.0]));
    let second = NpyFile::new(&fs::read(folder.path("y1.npy")).expect("written")[..])
        .expect("a .npy file")
        .into_vec::<i32>()
        .expect("integers");
    assert_eq!(second, [3]);
}

#[test]
fn inputs_that_do_not_fit() {
    let folder = Folder::new();
    let program = folder.text("product.fh", PRODUCT);
    let a = format!("a={}", folder.array("a.npy", &[2, 3], &[0.0; 6]));
    let b = format!("b={}", folder.array("b.npy", &[4, 1], &[0.0; 4]));
    let flat = format!("b={}", folder.array("flat.npy", &[3], &[0.0; 3]));
    let damaged = format!("b={}", folder.text("damaged.npy", "\u{93}NUMPY no"));
    let with = |more: &[&str]| fiddlehead(&[&["exec", &program, "--input", &a][..], more].concat());
    with(&["--input", &b]).failed(1, &["`b`", "K", "4", "3"]);
    with(&["--input", &flat]).failed(1, &["`b`", "1 axes"]);
    with(&["--input", &damaged]).failed(1, &["`b`", "damaged.npy", ".npy"]);
    with(&["--input", "b=no.npy"]).failed(1, &["`b`", "no.npy", "No such file"]);
    with(&["--input", "b=random:x"]).failed(2, &["`b`", "random:1"]);
    with(&["--input", "b=random:1"]).failed(1, &["size N", "--dim N="]);
    with(&["--dim", "N=2"]).failed(2, &["`b`", "f32[3, 2]", "random:1"]);
    with(&["--input", &b, "--input", &b]).failed(2, &["b", "twice"]);
    with(&["--input", "b=random:1", "--dim", "N=2", "--input", "c=random:1"]).failed(2, &["`c`", "a, b"]);
    with(&["--input", "b=random:1", "--dim", "N=2147483647"]).failed(1, &["`b`", "at most"]);
    with(&["--input", "b=random:1", "--dim", "Z=2"]).failed(1, &["Z"]);
}

#[test]
fn truth_values_are_given_as_words() {
    let folder = Folder::new();
    let program = folder.text("choose.fh", "fn main(b: bool, x: f32) -> f32 = if b { x } else { 0.0 - x };");
    let run = |b: &str, x: &str| fiddlehead(&["exec", &program, "--input", b, "--input", x]);
    assert_eq!(run("b=true", "x=2").succeeded(), "result: f32 = 2\n");
    assert_eq!(run("b=false", "x=2").succeeded(), "result: f32 = -2\n");
    run("b=true", "x=true").failed(1, &["`x`", "true is no f32"]);
    run("b=1", "x=1").failed(1, &["`b`", "1 is no bool"]);
}

#[test]
fn a_step_is_not_run_alone() {
    let folder = Folder::new();
    let text = "step fn main(x: f32) -> f32 { state s: f32 = 0.0; s' = s + x; s' }";
    let program = folder.text("step.fh", text);
    fiddlehead(&["exec", &program, "--input", "x=1"]).failed(2, &["step.fh", "is a step", "scan"]);
}

#[test]
fn sizes_that_make_no_sense_are_told_with_their_place() {
    let folder = Folder::new();
    let run = |name: &str, text: &str, dim: &str| {
        fiddlehead(&["exec", &folder.text(name, text), "--dim", dim, "--input", "x=random:1"])
    };
    let top = "fn main[N](x: f32[N]) -> (f32[8], i32[8]) =\n    top[8](x);";
    run("top.fh", top, "N=3").failed(1, &["top.fh:2:5", "top[8]", "3 elements"]);
    let square = "fn main[N](x: f32) -> f32[N, N, N] = each[i in N, j in N, k in N] x;";
    run("cube.fh", square, "N=2147483647").failed(1, &["cube.fh:1:", "too many elements"]);
    run("large.fh", square, "N=2000").failed(1, &["main", "more elements than memory can hold"]);
}

#[cfg(unix)]
#[test]
fn files_without_an_end_are_refused() {
    let folder = Folder::new();
    let program = folder.text("id.fh", "fn main[N](x: f32[N]) -> f32[N] = x;");
    fiddlehead(&["exec", "/dev/zero"]).failed(1, &["/dev/zero", "16 MiB"]);
    fiddlehead(&["exec", &program, "--input", "x=/dev/zero"]).failed(1, &["/dev/zero", ".npy"]);
    fiddlehead(&["run", "--config", "/dev/zero", "Hello."]).failed(2, &["/dev/zero", "16 MiB"]);
}

#[test]
fn programs_that_are_wrong() {
    let folder = Folder::new();
    let run = |name: &str, text: &str| fiddlehead(&["exec", &folder.text(name, text)]);
    run("syntax.fh", "fn main( -> f32 = 1.0;").failed(1, &["syntax.fh", "1 error"]);
    let unknown = "fn main() -> f32 =\n    1.0 + y;\n";
    run("unknown.fh", unknown).failed(1, &["unknown.fh:2:11", "y", "1.0 + y"]);
    run("empty.fh", "").failed(1, &["empty.fh", "main"]);
    run("other.fh", "fn other() -> f32 = 1.0;\n").failed(1, &["main"]);
    fs::write(folder.path("binary.fh"), [0xff, 0x00, 0xfe]).expect("written");
    fiddlehead(&["exec", &folder.named("binary.fh")]).failed(1, &["binary.fh", "UTF-8"]);
    fiddlehead(&["exec", "no.fh"]).failed(1, &["no.fh", "No such file"]);
}

#[test]
fn a_trap_names_the_programs_line() {
    let folder = Folder::new();
    let text = "fn main[N](x: f32[N], at: i32) -> f32[N] =\n    each[i in N] x[i + at];\n";
    let program = folder.text("trap.fh", text);
    let x = format!("x={}", folder.array("x.npy", &[3], &[1.0, 2.0, 4.0]));
    let run = |at: &str| fiddlehead(&["exec", &program, "--input", &x, "--input", at]);
    assert_eq!(run("at=0").succeeded(), "result: f32[3] = 1, 2, 4\n");
    run("at=1").failed(1, &["trap.fh:2:5", "index 3", "axis 0 of `x`"]);
    run("at=-1").failed(1, &["trap.fh:2:5", "index -1"]);
    run("at=1.5").failed(1, &["`at`", "1.5", "i32"]);
}
