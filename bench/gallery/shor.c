/* Shor's algorithm on libquantum's simulated computer, as SPEC's 462.libquantum runs it: factors a number by the period
 * of the powers of BASE modulo that number. */

#include <quantum.h>
#include <stdio.h>
#include <stdlib.h>

static int parse(const char *text) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 2 || value > 1 << 14) {
        fprintf(stderr, "shor: %s is no number from 2 to %d\n", text, 1 << 14);
        exit(2);
    }
    return (int)value;
}

/* base ^ exponent mod number */
static int power_modulo(int base, int exponent, int number) {
    long power = 1;
    for (int i = 0; i < exponent; i++) {
        power = power * base % number;
    }
    return (int)power;
}

int main(int count, char **values) {
    if (count != 3) {
        fputs("usage: shor NUMBER BASE\n", stderr);
        return 2;
    }
    const int number = parse(values[1]);
    const int base = parse(values[2]);
    if (quantum_gcd(number, base) > 1) {
        printf("%d and %d have a common factor\n", number, base);
        return EXIT_FAILURE;
    }
    srand(1);
    const int width = quantum_getwidth(number * number);
    const int result_width = quantum_getwidth(number);
    quantum_reg qureg = quantum_new_qureg(0, width);
    for (int i = 0; i < width; i++) {
        quantum_hadamard(i, &qureg);
    }
    quantum_addscratch(3 * result_width + 2, &qureg);
    quantum_exp_mod_n(number, base, width, result_width, &qureg);
    for (int i = 0; i < 3 * result_width + 2; i++) {
        quantum_bmeasure(0, &qureg);
    }
    quantum_qft(width, &qureg);
    /* The transform leaves the bits in reverse order. */
    const unsigned long long measured = quantum_measure(qureg);
    quantum_delete_qureg(&qureg);
    int numerator = 0;
    for (int i = 0; i < width; i++) {
        numerator |= (int)(measured >> i & 1) << (width - 1 - i);
    }
    int period = 1 << width;
    if (numerator == 0) {
        puts("measured 0: run with another base");
        return EXIT_SUCCESS;
    }
    quantum_frac_approx(&numerator, &period, width);
    if (period % 2 == 1) {
        period *= 2;
    }
    const int root = power_modulo(base, period / 2, number);
    printf("%d: period %d, factors %d and %d\n", number, period, quantum_gcd(number, root + 1), quantum_gcd(number, root - 1));
    return EXIT_SUCCESS;
}
