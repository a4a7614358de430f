//! What users read when they get it wrong, and shapes that must compile.

#[test]
fn every_shape_compiles() {
    trybuild::TestCases::new().pass("tests/pass/*.rs");
}
