//! Lines of source and what is allocated on them, as a table in the sources themselves:
//! `//= NAME`, with `-` for no name, `^` for memory that is returned, `^1` for memory that leaves
//! by parameter 1, `<- callee` for the function known to have been called.

use super::*;

fn describe(finding: Option<Finding>) -> String {
    let Some(Finding { name, escape }) = finding else {
        return "-".to_owned();
    };
    let name = name.unwrap_or_else(|| "-".to_owned());
    match escape {
        None => name,
        Some(Escape::Returned) => format!("{name} ^"),
        Some(Escape::OutParameter(parameter)) => format!("{name} ^{parameter}"),
    }
}

fn check(file: &str, text: &str) {
    let source = SourceTree::parse(file, text.to_owned()).unwrap();
    let mut cases = 0;
    for (index, line) in text.lines().enumerate() {
        let Some((_, marker)) = line.split_once("//= ") else {
            continue;
        };
        let (expected, callee) = match marker.split_once(" <- ") {
            Some((expected, callee)) => (expected, Some(callee)),
            None => (marker, None),
        };
        let query = Query {
            line: index as u32 + 1,
            callee,
            ..Query::default()
        };
        assert_eq!(
            describe(source.find(&query)),
            expected.trim(),
            "{file}: {line}"
        );
        cases += 1;
    }
    assert!(cases > 0, "no marked line in {file}");
}

#[test]
fn assignments_and_declarations_of_c() {
    check(
        "a.c",
        r#"
static double *global; //= -
double *second = 0;
void f(struct s *s, int n, char **argv) {
    int *a = malloc(n * sizeof *a); //= a <- malloc
    int *b; b = (int *)malloc(n); //= b <- malloc
    s->field = calloc(n, 8); //= s->field <- calloc
    s->in.deep = calloc(n, 8); //= s->in.deep
    grid[i] = malloc(n); //= grid[]
    grid[i][j] = malloc(n); //= grid[][]
    s->rows[i].cells = malloc(n); //= s->rows[].cells
    *(rows + i) = malloc(n); //= rows[]
    (*s).field = malloc(n); //= (*s).field
    *p++ = malloc(n); //= *p
    global = realloc(global, n); //= global
    char *t = strdup(argv[1]); //= t <- __strdup
    void *m = mmap(0, n, PROT_READ, MAP_PRIVATE, -1, 0); //= m
    int *c = n ? malloc(n) : calloc(n, 1); //= c
    if ((p = malloc(n)) == NULL) die(); //= p
    if (!(q = malloc(n))) die(); //= q
    while ((line = read_line(f))) use(line); //= line <- read_line
    char *end = (char *)malloc(n) + n; //= end
    struct v v = { .data = malloc(n) }; //= v.data
    struct v w = { .in = { .data = malloc(n) } }; //= w.in.data
    struct v x = { malloc(n) }; //= x
    static char *once; once = malloc(n); //= once
    a = b = malloc(n); //= b
    double *k[2] = { malloc(n), malloc(n) }; //= k
    printf("%d", n); //= - <- printf
    fscanf(f, "%d", &n); //= - <- fscanf
    use(xmalloc(n)); //= -
    n++; //= -
}
"#,
    );
}

#[test]
fn out_parameters_of_c() {
    check(
        "a.c",
        r#"
int f(struct s *s, int n) {
    posix_memalign((void **)&p, 64, n); //= p
    int rc = posix_memalign(&s->data, 64, n); //= s->data
    if (posix_memalign(&q, 64, n)) return 1; //= q
    if (0 != posix_memalign((void **)(&q2), 64, n)) return 1; //= q2
    while (getline(&line, &capacity, file) > 0) {} //= line
    asprintf(&text, "%d", n); //= text
    int error = make_buffer(&b, n); //= b
    int status; status = make_buffer(&s->b, n); //= s->b
    size_t written = fill(&table, n); //= table
    int entries = count_entries(n); //= -
    char *res = read_all(n); //= res
    unsigned long base = (unsigned long)mmap(0, n, 3, 2, -1, 0); //= base
    pthread_create(&thread, NULL, run, &arg); //= thread
}
int g(double **out, int n) {
    *out = malloc(n); //= *out ^0
    return *out != NULL;
}
int *h(int n, int **first, struct s **second) {
    *second = malloc(n); //= *second ^2
}
"#,
    );
}

#[test]
fn macros_of_c() {
    check(
        "a.c",
        r#"
void f(int n) {
    ALLOC(p, n); //= p <- malloc
    CHECK(p = malloc(n)); //= p <- malloc
    CHECK(posix_memalign(&p, 64, n)); //= p
    NEW_ARRAY(s->data, double, n); //= s->data <- malloc
    p = ALLOC_ARRAY(double, n); //= p <- malloc
    double *q = CHECK_PTR(malloc(n)); //= q <- malloc
    my_alloc(p, n); //= p <- malloc
    assert((p = malloc(n)) != NULL); //= p <- malloc
}
"#,
    );
}

#[test]
fn statements_over_several_lines() {
    check(
        "a.c",
        r#"
void f(int n) {
    double *a = //= a
        malloc( //= a
            n * //= a
            sizeof(double)); //= a
    matrix->cells //= matrix->cells
        = calloc(n, //= matrix->cells
                 8);
    if ((b = malloc( //= b
             n)) == 0) { //= b
        return;
    }
    { char *c
        = malloc(n); //= c
    }
}
"#,
    );
    check(
        "a.cpp",
        r#"
void f(int n) {
    std::vector< //= x
        double> //= x
        x(n); //= x
    auto y = //= y
        std::make_unique<double[]>( //= y
            n); //= y
    run([&] { //= - <- run
        z.resize(n); //= z
        if (n) {
            w.push_back(1); } //= w
    });
}
"#,
    );
}

#[test]
fn wrappers_of_c() {
    check(
        "a.c",
        r#"
void *xmalloc(size_t n) { void *p = malloc(n); if (!p) abort(); return p; } //= p ^ <- malloc
void *direct(size_t n) { return malloc(n); } //= - ^ <- malloc
void *casted(size_t n) { return (char *)malloc(n) + 16; } //= - ^
struct node *make(void) {
    struct node *n = malloc(sizeof *n); //= n ^
    n->data = malloc(9); //= n->data
    return n;
}
void *late(size_t n) {
    void *p;
    p = malloc(n); //= p ^
    return (struct s *)(p);
}
void *grow(void *p, size_t n) {
    p = realloc(p, n); //= p ^
    return n ? p : 0;
}
static void *cache;
void *kept(size_t n) {
    cache = malloc(n); //= cache
    return cache;
}
void *remembered(size_t n) {
    static void *p;
    p = malloc(n); //= p
    return p;
}
int other(void) {
    char *p = malloc(1); //= p
    return *p;
}
"#,
    );
}

#[test]
fn new_and_smart_pointers() {
    check(
        "a.cpp",
        r#"
struct Table {
    Table(int n) : data_(new double[n]), rows_(n), //= data_ <- operator new[]
                   cells_{n} //= cells_
    {
        this->x_ = new int[n]; //= x_ <- operator new[]
        (*this).y_ = new int[n]; //= y_
        buffer_ = std::make_unique<char[]>(n); //= buffer_ <- make_unique
        rows_.resize(n); //= rows_ <- resize
        this->rows_.reserve(n); //= rows_ <- reserve
    }
    std::vector<int> pool_ = std::vector<int>(100); //= pool_
    std::vector<int> list_{1, 2, 3}; //= list_ <- vector
    int *raw_ = new int[64]; //= raw_
    std::unique_ptr<double[]> rest_;
};
struct Implied { //= pool_|list_ <- vector
    std::vector<int> pool_ = std::vector<int>(100);
    std::vector<int> list_{1, 2, 3};
    int *raw_ = new int[64];
};
struct Headed {
    Headed(int n) //= raw_ <- operator new[]
    {
        z_.resize(n); //= z_ <- resize
    }
    int *raw_ = new int[64];
};
struct Explicit {
    Explicit(int n) : x_(n), y_(n) //= x_|pool_ <- vector
    {
        z_.resize(n); //= z_ <- resize
    }
    std::vector<int> x_;
    std::string y_;
    std::vector<int> z_;
    std::vector<int> pool_ = std::vector<int>(100);
    int *raw_ = new int[64];
};
void f(int n) {
    int *a = new int[n]; //= a <- operator new[]
    auto *b = new Table(n); //= b <- operator new
    auto c = std::make_unique<double[]>(n); //= c <- make_unique
    std::unique_ptr<double[]> d(new double[n]); //= d
    std::shared_ptr<Table> e = std::make_shared<Table>(n); //= e
    d.reset(new double[n]); //= d <- operator new[]
    list.push_back(new Table(n)); //= list[] <- operator new
    nodes[key] = new Table(n); //= nodes[]
    p = static_cast<int *>(malloc(n)); //= p
    int *q = reinterpret_cast<int *>(std::malloc(n)); //= q
    auto r = std::unique_ptr<T, F>(static_cast<T *>(std::malloc(n)), std::free); //= r
    int *s{new int[n]}; //= s
    use(new Table(n)); //= -
    Table::shared = new Table(n); //= Table::shared
    ::global = new Table(n); //= global
}
"#,
    );
}

#[test]
fn containers_of_cpp() {
    check(
        "a.cpp",
        r#"
std::vector<int> g(1000); //= g
static std::vector<double> h(1 << 20, 0.0); //= h
namespace ns { std::string title(100, ' '); } //= title <- basic_string
void f(int n, const std::vector<int> &v) {
    std::vector<double> x(n); //= x <- vector
    std::vector<double> y(n, 1.0); //= y <- vector
    std::vector<std::vector<int>> z(n, std::vector<int>(n)); //= z <- vector
    std::vector<int> l{1, 2, 3}; //= l <- vector
    std::vector<int> w = v; //= w <- vector
    auto k = v; //= k <- vector
    Matrix m(n, n); //= m <- Matrix
    Matrix i; //= i <- Matrix
    std::string s = "a long text that does not fit"; //= s <- basic_string
    std::vector<int> a(n), b(n); //= a|b <- vector
    x.resize(n); //= x <- resize
    obj.x.assign(n, 0); //= obj.x <- assign
    p->list.push_back(1); //= p->list <- push_back
    cells[i].reserve(n); //= cells[] <- reserve
    x = y; //= x <- operator=
    table[key] = 1; //= table <- operator[]
    s += "more"; //= s <- operator+=
    s += "more"; //= s <- _M_append
    s = s + t; //= s <- operator+
    stream << "text" << n; //= stream <- operator<<
    rows.emplace_back(n); //= rows <- emplace_back
    rows.push_back(std::vector<int>(n)); //= rows[] <- vector
    auto it = index.emplace(k, n).first; //= index <- emplace
    std::copy(v.begin(), v.end(), std::back_inserter(out)); //= out <- copy
    auto [first, second] = make_pair_of(n); //= first|second <- make_pair_of
    auto job = [&] { inner.resize(n); }; //= inner <- resize
    std::getline(std::cin, text); //= text <- getline
    auto u = v.clone(); //= u <- clone
    x = transform(v); //= x <- transform
    if (auto q = load(n)) use(q); //= q <- load
    for (int i = 0; i < n; i++) total.push_back(i); //= total <- push_back
    get().resize(n); //= get() <- resize
    x.swap(y); //= x
    return;
}
std::vector<int> build(int n) {
    std::vector<int> v(n); //= v ^ <- vector
    return v;
}
std::vector<int> direct(int n) { return std::vector<int>(n); } //= - ^ <- vector
std::unique_ptr<T> moved(int n) {
    auto p = std::make_unique<T>(n); //= p ^ <- make_unique
    return std::move(p);
}
std::vector<int> copied() { return member; } //= - ^ <- vector
template <typename T> T *array(int n) { return new T[n]; } //= - ^ <- operator new[]
template <typename G> void Simplex<G>::reset() {
    _source.resize(_arc_num); //= _source <- resize
}
"#,
    );
}

#[test]
fn collections_of_rust() {
    check(
        "a.rs",
        r#"
static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; 100]); //= TABLE ^ <- from_elem
fn f(n: usize, s: &mut State) {
    let v = vec![0u8; n]; //= v <- from_elem
    let mut w: Vec<u64> = Vec::with_capacity(n); //= w <- with_capacity
    let b = Box::new([0u8; 4096]); //= b
    let c: Vec<usize> = (0..n).map(|i| i * 2).collect(); //= c <- collect
    let d = (0..n).collect::<Vec<_>>(); //= d <- collect
    let e = v.clone(); //= e <- clone
    let t = "a".repeat(n); //= t <- repeat
    let x = std::fs::read(path)?; //= x <- read
    let r = Rc::new(RefCell::new(vec![0; n])); //= r <- from_elem
    v.push(1); //= v <- push
    s.items.push(1); //= s.items <- push
    s.rows[i].resize(n, 0); //= s.rows[] <- resize
    s.rows.push(vec![0; n]); //= s.rows[] <- from_elem
    map.entry(k).or_insert_with(Vec::new).push(1); //= map <- push
    map.insert(k, String::from("x")); //= map <- insert
    s.queue.lock().unwrap().push_back(1); //= s.queue <- push_back
    out += "text"; //= out <- add_assign
    s.text = format!("{n}"); //= s.text
    let (p, q) = (vec![0; n], 1); //= p
    let Some(o) = load(n) else { return }; //= o <- load
    file.read_to_end(&mut buffer)?; //= buffer <- read_to_end
    let count = file.read_to_string(&mut text)?; //= text <- read_to_string
    write!(line, "{n}").unwrap(); //= line
    let g = if n > 1 { vec![0; n] } else { Vec::new() }; //= g <- from_elem
    let h = match n { 0 => vec![], _ => vec![0; n] }; //= h
    let i = //= i
        Vec::<u8>::with_capacity(n); //= i
    let rows: Vec<Vec<u8>> = (0..n).map(|_| vec![0; n]).collect(); //= rows ^ <- from_elem
    println!("{n}"); //= -
    grid[i] = vec![0; n]; //= grid[]
    let j = { let k = 2; vec![0; k] }; //= j <- from_elem
}
impl State {
    fn new(n: usize) -> Self {
        let cache = vec![0; n]; //= cache
        Self {
            buf: vec![0; n], //= buf <- from_elem
            names: Vec::with_capacity(n), //= names
            cache,
        }
    }
    fn grow(&mut self, n: usize) {
        self.buf.resize(n, 0); //= buf <- resize
        self.buf = vec![0; n]; //= buf
        self.names.extend((0..n).map(|i| i.to_string())); //= names <- extend
    }
}
fn tail(n: usize) -> Vec<u8> {
    vec![0; n] //= - ^
}
fn local(n: usize) -> io::Result<Vec<u8>> {
    let mut v = Vec::new();
    v.resize(n, 0); //= v ^
    Ok(v)
}
fn branch(n: usize) -> Vec<u8> {
    if n > 1 {
        vec![0; n] //= - ^
    } else {
        return Vec::with_capacity(n); //= - ^
    }
}
"#,
    );
}

#[test]
fn the_column_chooses_between_declarators() {
    let text = "void f(int n) { std::vector<int> a(n), b(n); }\n";
    let source = SourceTree::parse("a.cpp", text.to_owned()).unwrap();
    let at = |column: usize| {
        let query = Query {
            line: 1,
            column: Some(column as u32 + 1),
            callee: Some("vector"),
            out_argument: None,
        };
        source.find(&query).and_then(|finding| finding.name)
    };
    assert_eq!(at(text.find("a(n)").unwrap()).as_deref(), Some("a"));
    assert_eq!(at(text.find("b(n)").unwrap() + 2).as_deref(), Some("b"));
    // A column outside of both tells nothing.
    assert_eq!(at(0).as_deref(), Some("a|b"));
    assert_eq!(at(4000).as_deref(), Some("a|b"));
}

#[test]
fn an_out_argument_is_found_at_the_caller() {
    let text = "void g(int n) { double *a; make(1, &a); make(2, &s->b[n]); }\n";
    let source = SourceTree::parse("a.c", text.to_owned()).unwrap();
    let at = |column, callee| {
        let query = Query {
            line: 1,
            column,
            callee: Some(callee),
            out_argument: Some(1),
        };
        source.find(&query).and_then(|finding| finding.name)
    };
    assert_eq!(
        at(Some(text.find("make(1").unwrap() as u32 + 1), "make").as_deref(),
        Some("a")
    );
    assert_eq!(
        at(Some(text.find("make(2").unwrap() as u32 + 1), "make").as_deref(),
        Some("s->b[]")
    );
    assert_eq!(at(None, "other"), None);
}

#[test]
fn functions_are_told_around_a_line() {
    let text = "int *f(int n)\n{\n    return g(n);\n}\nvoid A::h()\n{\n    x();\n}\n";
    let source = SourceTree::parse("a.cpp", text.to_owned()).unwrap();
    assert_eq!(source.function_at(3).as_deref(), Some("f"));
    assert_eq!(source.function_at(7).as_deref(), Some("h"));
    assert_eq!(source.function_at(0), None);
    assert_eq!(source.function_at(99), None);
    let rust = SourceTree::parse("a.rs", "fn f() {\n    g();\n}\n".to_owned()).unwrap();
    assert_eq!(rust.function_at(2).as_deref(), Some("f"));
}

#[test]
fn headers_may_be_of_either_language() {
    let c = "struct s { int *new; int class; };\nvoid f(struct s *s) {\n  s->new = malloc(9);\n}\n";
    let source = SourceTree::parse("a.h", c.to_owned()).unwrap();
    let query = Query {
        line: 3,
        ..Query::default()
    };
    assert_eq!(describe(source.find(&query)), "s->new");
    let cpp = "template <class T> struct S {\n  S(int n) : x_(new T[n]) {}\n};\n";
    let source = SourceTree::parse("a.h", cpp.to_owned()).unwrap();
    let query = Query {
        line: 2,
        ..Query::default()
    };
    assert_eq!(describe(source.find(&query)), "x_");
}

#[test]
fn languages_are_told_by_extension() {
    for (file, grammar) in [
        ("a.c", Some(Grammar::C)),
        ("a.C", Some(Grammar::Cpp)),
        ("a.CPP", Some(Grammar::Cpp)),
        ("lemon/network_simplex.h", Some(Grammar::Cpp)),
        ("/usr/include/eigen3/Eigen/Dense", Some(Grammar::Cpp)),
        ("a.rs", Some(Grammar::Rust)),
        ("a.f90", Some(Grammar::Fortran(fortran::Form::Free))),
        ("A.FOR", Some(Grammar::Fortran(fortran::Form::Fixed))),
        ("a.go", None),
    ] {
        assert_eq!(Grammar::of(file), grammar, "{file}");
    }
}

#[test]
fn any_text_and_any_line_is_survived() {
    let odd = [
        "",
        "\n",
        "((((",
        "int x = ",
        "}}}}",
        "\u{0}",
        "é = malloc(ü);",
        "vec![",
        "#define",
    ];
    for text in odd {
        for file in ["a.c", "a.cpp", "a.h", "a.rs"] {
            let source = SourceTree::parse(file, text.to_owned()).unwrap();
            for line in [0, 1, 2, u32::MAX] {
                let query = Query {
                    line,
                    column: Some(u32::MAX),
                    ..Query::default()
                };
                let _ = (source.find(&query), source.function_at(line));
            }
        }
    }
    let deep = format!("int x = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
    if let Some(source) = SourceTree::parse("a.c", deep) {
        let _ = source.find(&Query {
            line: 1,
            ..Query::default()
        });
    }
}
