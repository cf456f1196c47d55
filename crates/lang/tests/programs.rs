//! The shipped programs check cleanly.

#[test]
fn shipped_programs_check() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/programs");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the programs' folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "fh") {
            let text = std::fs::read_to_string(&path).expect("a program");
            if let Err(messages) = fiddlehead_lang::compile(&path.display().to_string(), &text) {
                panic!("{}", messages.render(false));
            }
            count += 1;
        }
    }
    assert!(count > 0, "no program in {folder}");
}
