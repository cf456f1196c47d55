//! Checks a program and prints it typed, or what is wrong with it: `cargo run --example check FILE`.

fn main() -> std::process::ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: check FILE");
        return std::process::ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    match fiddlehead_lang::compile(&path, &text) {
        Ok(program) => {
            print!("{}", fiddlehead_lang::dump::text(&program));
            std::process::ExitCode::SUCCESS
        }
        Err(messages) => {
            eprint!("{}", messages.render(false));
            std::process::ExitCode::FAILURE
        }
    }
}
