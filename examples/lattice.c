/* A sweep over a four-dimensional lattice in the manner of MILC, SPEC's 433.milc: SU(3) matrices on the links between
 * sites. Links are smeared ("fat" links, from the staples around each), then a fermion field is inverted on them by
 * conjugate gradients. Every phase goes through whole arrays, site after site; none fits a cache, and most of them
 * are needed again only after all others were. */

#include <complex.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIRECTIONS = 4, COLOURS = 3 };

typedef double complex scalar;
typedef struct {
    scalar e[COLOURS][COLOURS];
} su3_matrix;
typedef struct {
    scalar c[COLOURS];
} su3_vector;
/* The links that begin at a site, one in each direction. */
typedef struct {
    su3_matrix towards[DIRECTIONS];
} site_links;

struct lattice {
    size_t length[DIRECTIONS];
    size_t sites;
    site_links *links;
    site_links *fat_links;
    su3_matrix *staples;
};

struct fermions {
    su3_vector *source, *solution, *residual, *search, *half_way, *image;
};

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        fprintf(stderr, "lattice: no memory for %zu times %zu bytes\n", count, bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* xorshift64*: the same numbers everywhere. Between -0.5 and 0.5. */
static double next_number(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)(*state * UINT64_C(2685821657736338717) >> 11) / 9007199254740992.0 - 0.5;
}

/* The site one step from this one, forwards or backwards; the lattice is a torus. */
static size_t neighbour(const struct lattice *lattice, size_t site, int direction, int forwards) {
    size_t stride = 1;
    for (int d = 0; d < direction; d++) {
        stride *= lattice->length[d];
    }
    const size_t length = lattice->length[direction];
    const size_t at = site / stride % length;
    if (forwards) {
        return at + 1 < length ? site + stride : site - (length - 1) * stride;
    }
    return at > 0 ? site - stride : site + (length - 1) * stride;
}

/* a b, with a or b replaced by its adjoint. */
static su3_matrix multiply(const su3_matrix *a, const su3_matrix *b, int adjoint_a, int adjoint_b) {
    su3_matrix product;
    for (int i = 0; i < COLOURS; i++) {
        for (int j = 0; j < COLOURS; j++) {
            scalar sum = 0;
            for (int k = 0; k < COLOURS; k++) {
                sum += (adjoint_a ? conj(a->e[k][i]) : a->e[i][k]) * (adjoint_b ? conj(b->e[j][k]) : b->e[k][j]);
            }
            product.e[i][j] = sum;
        }
    }
    return product;
}

static void add_scaled_matrix(su3_matrix *to, const su3_matrix *from, double scale) {
    for (int i = 0; i < COLOURS; i++) {
        for (int j = 0; j < COLOURS; j++) {
            to->e[i][j] += scale * from->e[i][j];
        }
    }
}

/* Rows made orthonormal (Gram and Schmidt): unitary. The phase that would make it SU(3) does not matter here. */
static void make_unitary(su3_matrix *matrix) {
    for (int row = 0; row < COLOURS; row++) {
        for (int before = 0; before < row; before++) {
            scalar along = 0;
            for (int j = 0; j < COLOURS; j++) {
                along += conj(matrix->e[before][j]) * matrix->e[row][j];
            }
            for (int j = 0; j < COLOURS; j++) {
                matrix->e[row][j] -= along * matrix->e[before][j];
            }
        }
        double norm = 0;
        for (int j = 0; j < COLOURS; j++) {
            norm += creal(matrix->e[row][j] * conj(matrix->e[row][j]));
        }
        for (int j = 0; j < COLOURS; j++) {
            matrix->e[row][j] /= sqrt(norm);
        }
    }
}

static void start_hot(struct lattice *lattice) {
    uint64_t state = 1;
    for (size_t site = 0; site < lattice->sites; site++) {
        for (int d = 0; d < DIRECTIONS; d++) {
            su3_matrix *link = &lattice->links[site].towards[d];
            for (int i = 0; i < COLOURS; i++) {
                for (int j = 0; j < COLOURS; j++) {
                    const double real = next_number(&state);
                    link->e[i][j] = real + next_number(&state) * I;
                }
            }
            make_unitary(link);
        }
    }
}

/* Adds up the two staples that lie in the plane of `mu` and `nu` and end where the link of `mu` does. */
static void gather_staples(struct lattice *lattice, int mu, int nu) {
    const site_links *links = lattice->links;
    for (size_t site = 0; site < lattice->sites; site++) {
        const size_t ahead = neighbour(lattice, site, mu, 1);
        const size_t up = neighbour(lattice, site, nu, 1);
        const size_t down = neighbour(lattice, site, nu, 0);
        const size_t ahead_down = neighbour(lattice, ahead, nu, 0);
        su3_matrix part = multiply(&links[site].towards[nu], &links[up].towards[mu], 0, 0);
        su3_matrix upper = multiply(&part, &links[ahead].towards[nu], 0, 1);
        part = multiply(&links[down].towards[nu], &links[down].towards[mu], 1, 0);
        const su3_matrix lower = multiply(&part, &links[ahead_down].towards[nu], 0, 0);
        add_scaled_matrix(&upper, &lower, 1);
        lattice->staples[site] = upper;
    }
}

static void smear_links(struct lattice *lattice) {
    memcpy(lattice->fat_links, lattice->links, lattice->sites * sizeof *lattice->links);
    for (int mu = 0; mu < DIRECTIONS; mu++) {
        for (int nu = 0; nu < DIRECTIONS; nu++) {
            if (nu == mu) {
                continue;
            }
            gather_staples(lattice, mu, nu);
            for (size_t site = 0; site < lattice->sites; site++) {
                add_scaled_matrix(&lattice->fat_links[site].towards[mu], &lattice->staples[site], 0.05);
            }
        }
    }
}

static void add_product(su3_vector *to, const su3_matrix *matrix, const su3_vector *vector, int adjoint, double sign) {
    for (int i = 0; i < COLOURS; i++) {
        scalar sum = 0;
        for (int j = 0; j < COLOURS; j++) {
            sum += (adjoint ? conj(matrix->e[j][i]) : matrix->e[i][j]) * vector->c[j];
        }
        to->c[i] += sign * sum;
    }
}

/* The staggered Dirac operator without its phases: differences along each direction, carried by the fat links. */
static void dslash(const struct lattice *lattice, const su3_vector *from, su3_vector *to, double sign) {
    for (size_t site = 0; site < lattice->sites; site++) {
        su3_vector sum = {{0}};
        for (int d = 0; d < DIRECTIONS; d++) {
            const size_t ahead = neighbour(lattice, site, d, 1);
            const size_t behind = neighbour(lattice, site, d, 0);
            add_product(&sum, &lattice->fat_links[site].towards[d], &from[ahead], 0, sign);
            add_product(&sum, &lattice->fat_links[behind].towards[d], &from[behind], 1, -sign);
        }
        to[site] = sum;
    }
}

static double inner_product(const su3_vector *a, const su3_vector *b, size_t sites) {
    double sum = 0;
    for (size_t site = 0; site < sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            sum += creal(conj(a[site].c[i]) * b[site].c[i]);
        }
    }
    return sum;
}

/* to = a scale + b */
static void combine(su3_vector *to, const su3_vector *a, double scale, const su3_vector *b, size_t sites) {
    for (size_t site = 0; site < sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            to[site].c[i] = a[site].c[i] * scale + b[site].c[i];
        }
    }
}

/* Solves (mass^2 - dslash^2) solution = source by conjugate gradients; returns what is left of the squared residual. */
static double congrad(const struct lattice *lattice, struct fermions *f, double mass, int iterations) {
    const size_t sites = lattice->sites;
    memcpy(f->residual, f->source, sites * sizeof *f->source);
    memcpy(f->search, f->source, sites * sizeof *f->source);
    double left = inner_product(f->residual, f->residual, sites);
    const double first = left;
    for (int i = 0; i < iterations; i++) {
        dslash(lattice, f->search, f->half_way, 1);
        dslash(lattice, f->half_way, f->image, -1);
        combine(f->image, f->search, mass * mass, f->image, sites);
        const double step = left / inner_product(f->search, f->image, sites);
        combine(f->solution, f->search, step, f->solution, sites);
        combine(f->residual, f->image, -step, f->residual, sites);
        const double now = inner_product(f->residual, f->residual, sites);
        combine(f->search, f->search, now / left, f->residual, sites);
        left = now;
    }
    return left / first;
}

static size_t parse(int count, char **values, int index, const char *name, long most, long standard) {
    if (index >= count) {
        return (size_t)standard;
    }
    char *end = NULL;
    errno = 0;
    const long value = strtol(values[index], &end, 10);
    if (errno != 0 || end == values[index] || *end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "lattice: %s is no %s from 1 to %ld\nusage: lattice [LENGTH [TIMES [ITERATIONS]]]\n", values[index],
                name, most);
        exit(2);
    }
    return (size_t)value;
}

int main(int count, char **values) {
    const size_t length = parse(count, values, 1, "length", 128, 24);
    const size_t times = parse(count, values, 2, "number of times", 128, 32);
    const int iterations = (int)parse(count, values, 3, "number of iterations", 1000, 6);
    struct lattice lattice = {.length = {length, length, length, times}, .sites = length * length * length * times};
    lattice.links = allocate(lattice.sites, sizeof *lattice.links);
    lattice.fat_links = allocate(lattice.sites, sizeof *lattice.fat_links);
    lattice.staples = allocate(lattice.sites, sizeof *lattice.staples);
    struct fermions fermions;
    su3_vector **const fields[] = {&fermions.source, &fermions.solution, &fermions.residual,
                                   &fermions.search, &fermions.half_way, &fermions.image};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        *fields[i] = allocate(lattice.sites, sizeof **fields[i]);
    }

    start_hot(&lattice);
    smear_links(&lattice);
    uint64_t state = 2;
    for (size_t site = 0; site < lattice.sites; site++) {
        for (int i = 0; i < COLOURS; i++) {
            fermions.source[site].c[i] = next_number(&state);
        }
    }
    const double left = congrad(&lattice, &fermions, 0.5, iterations);
    printf("%zu sites, %d iterations, squared residual %.6e of the first\n", lattice.sites, iterations, left);
    return EXIT_SUCCESS;
}
