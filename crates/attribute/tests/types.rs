//! Types of the variables that allocations are kept in, and of static storage, against the `type:` comments in sources.

mod common;

use common::{Limits, build, folder, record, share_debug_information};
use pagewise_attribute::{Namer, Symbolizer, globals};
use std::collections::BTreeMap;
use std::path::Path;

const C: &str = r#"#include <stdlib.h>
enum { N = 70000 };
struct site { double *links; struct { char **texts; } label; union { float *reals; int *whole; }; };
typedef struct site site_t;
static float *global;
static site_t sites[4];
double matrix[64][32]; // type: double [64][32]
struct site *table[2048]; // type: struct site *[2048]
static void *volatile keep;
static void make(struct site **out) {
  *out = malloc(N);
}
int main(void) {
  double *grid = malloc(N); // type: double *
  const unsigned char *bytes = malloc(N); // type: const unsigned char *
  char **rows = malloc(N); // type: char **
  rows[1] = malloc(N); // type: char *
  site_t *named = malloc(N); // type: site_t *
  named->links = malloc(N); // type: double *
  named->label.texts = malloc(N); // type: char **
  named->reals = malloc(N); // type: float *
  sites[1].links = malloc(N); // type: double *
  global = malloc(N); // type: float *
  void *anything = malloc(N); // type: void *
  void (*calls)(void) = malloc(N); // type: function *
  {
    int *grid = malloc(N); // type: int *
    keep = grid;
  }
  struct site *made;
  make(&made); // type: struct site *
  keep = grid, keep = (void *)bytes, keep = rows, keep = anything, keep = (void *)calls, keep = made;
  return matrix[1][1] + (table[1] != 0);
}
"#;

const CPP: &str = r#"#include <memory>
#include <string>
#include <vector>
struct Base { std::vector<float> weights; };
class Solver : public Base {
  std::vector<double> cells;
public:
  void fill(int n) {
    cells.resize(n); // type: vector<double>
    weights.resize(n); // type: vector<float>
  }
};
int main(int n, char **) {
  Solver solver;
  solver.fill(n * 70000);
  std::vector<std::vector<int>> rows(2);
  rows[1].resize(n * 70000); // type: vector<int>
  auto *raw = new double[n * 70000]; // type: double *
  std::unique_ptr<char[]> owned(new char[n * 70000]); // type: unique_ptr<char []>
  std::string text(n * 70000, 'x'); // type: string
  __asm__ volatile("" : : "r"(raw), "r"(owned.get()), "r"(text.data()) : "memory");
}
"#;

const RUST: &str = r#"struct Field { cells: Vec<f64> }
fn main() {
    let n = std::env::args().count() * 70000;
    let line: Vec<u8> = Vec::with_capacity(n); // type: Vec<u8>
    let line: Vec<u16> = line.iter().map(|&byte| u16::from(byte)).chain(0..n as u16).collect();
    let line: Vec<u32> = vec![line.len() as u32; n]; // type: Vec<u32>
    let mut field = Field { cells: Vec::new() };
    field.cells.reserve(n); // type: Vec<f64>
    std::hint::black_box((&line, &field.cells));
}
"#;

const FORTRAN: &str = "module fields
  real(8), allocatable :: grid(:, :)
  real(8) :: fixed(64, 32) ! type: real(kind=8)(64,32)
end module
program solver
  use fields
  integer, allocatable :: counts(:)
  allocate (grid(200, 200)) ! type: real(kind=8)(:,:)
  allocate (counts(70000)) ! type: integer(kind=4)(:)
  grid = 1; counts = 2; fixed = 3
  print *, sum(grid), sum(counts), sum(fixed)
end program
";

/// The types that a source expects, by line.
fn expected(text: &str) -> BTreeMap<u32, String> {
    let lines = (1..).zip(text.lines());
    let typed =
        lines.filter_map(|(line, text)| Some((line, text.split_once(" type: ")?.1.to_owned())));
    typed.collect()
}

/// The types that are found, by line.
fn found(folder: &Path, program: &Path, source: &Path) -> BTreeMap<u32, String> {
    let own = |file: Option<&str>| {
        file.is_some_and(|file| Path::new(file).ends_with(source.file_name().unwrap()))
    };
    let recording = record(folder, program, &Limits::default());
    let (mut namer, mut symbolizer) = (Namer::new(), Symbolizer::new());
    let mut types = BTreeMap::new();
    for allocation in &recording.allocations {
        let site = namer.name(&recording.frames(&allocation.path, &mut symbolizer));
        if own(site.file.as_deref()) {
            types.insert(site.line.unwrap(), site.type_name.unwrap_or_default());
        }
    }
    for global in globals(program, 8192).unwrap() {
        if own(global.file.as_deref()) {
            types.insert(global.line.unwrap(), global.type_name.unwrap_or_default());
        }
    }
    types
}

fn check(compiler: &str, options: &str, name: &str, text: &str) {
    let folder = folder();
    let source = folder.path().join(name);
    std::fs::write(&source, text).unwrap();
    let program = build(folder.path(), compiler, options, &source);
    let types = found(folder.path(), &program, &source);
    assert_eq!(types, expected(text), "{compiler} {options}");
    if options.ends_with("-g") && compiler == "gcc" {
        share_debug_information(&program);
        let types = found(folder.path(), &program, &source);
        assert_eq!(types, expected(text), "shared by dwz");
    }
}

#[test]
fn of_c() {
    for options in ["-O0 -g", "-O0 -gdwarf-4", "-O0 -g -gsplit-dwarf"] {
        check("gcc", options, "types.c", C);
    }
}

#[test]
fn of_cpp() {
    check("g++", "-std=c++17 -O0 -g", "types.cpp", CPP);
}

#[test]
fn of_rust() {
    check("rustc", "--edition 2021 -g", "types.rs", RUST);
}

#[test]
fn of_fortran() {
    check("gfortran", "-O0 -g", "types.f90", FORTRAN);
}
