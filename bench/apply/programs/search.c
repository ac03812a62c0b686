/* What a search engine does to memory: documents of words in a Zipf distribution, an index of them that is filled at random while documents are read once
 * more, and queries that rank documents by BM25 and read the best. While it is filled, all of the index is in use, and nothing of it swaps: whoever keeps
 * documents then pushes it out. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DOCUMENTS = 80000,
    LENGTH = 300,
    WORDS = 200000,
    QUERIES = 3000,
    WORDS_OF_QUERY = 3,
    SHOWN = 3,
};

struct posting {
    uint32_t document;
    uint16_t times;
};

static uint64_t state = 88172645463325252u;

static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

/* Frequent and rare words lie side by side in the index. */
static uint32_t random_word(void) {
    uint32_t rank = (uint32_t)exp(uniform() * log(WORDS));
    return rank * 2654435761u % WORDS;
}

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        perror("calloc");
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void count_documents(const uint32_t *text, uint32_t *last, uint32_t *documents_with) {
    for (uint32_t document = 0; document < DOCUMENTS; document++) {
        for (uint32_t at = 0; at < LENGTH; at++) {
            uint32_t word = text[(size_t)document * LENGTH + at];
            if (last[word] != document + 1) {
                last[word] = document + 1;
                documents_with[word]++;
            }
        }
    }
}

static void fill(const uint32_t *text, uint32_t *last, size_t *next, struct posting *index) {
    for (uint32_t document = 0; document < DOCUMENTS; document++) {
        for (uint32_t at = 0; at < LENGTH; at++) {
            uint32_t word = text[(size_t)document * LENGTH + at];
            if (last[word] != document + 1) {
                last[word] = document + 1;
                index[next[word]++] = (struct posting){document, 1};
            } else {
                index[next[word] - 1].times++;
            }
        }
    }
}

static uint32_t best(const float *score) {
    uint32_t best = 0;
    for (uint32_t document = 1; document < DOCUMENTS; document++) {
        best = score[document] > score[best] ? document : best;
    }
    return best;
}

int main(void) {
    size_t words = (size_t)DOCUMENTS * LENGTH;
    uint32_t *text = allocate(words, sizeof *text);
    for (size_t at = 0; at < words; at++) {
        text[at] = random_word();
    }
    uint32_t *documents_with = allocate(WORDS, sizeof *documents_with);
    uint32_t *last = allocate(WORDS, sizeof *last);
    count_documents(text, last, documents_with);

    size_t *first = allocate(WORDS + 1, sizeof *first);
    for (uint32_t word = 0; word < WORDS; word++) {
        first[word + 1] = first[word] + documents_with[word];
    }
    struct posting *index = allocate(first[WORDS], sizeof *index);
    size_t *next = allocate(WORDS, sizeof *next);
    memcpy(next, first, WORDS * sizeof *next);
    memset(last, 0, WORDS * sizeof *last);
    fill(text, last, next, index);

    float *score = allocate(DOCUMENTS, sizeof *score);
    uint64_t checksum = 0;
    for (int query = 0; query < QUERIES; query++) {
        memset(score, 0, DOCUMENTS * sizeof *score);
        for (int number = 0; number < WORDS_OF_QUERY; number++) {
            uint32_t word = random_word();
            float weight = logf(1 + (DOCUMENTS - documents_with[word] + 0.5f) / (documents_with[word] + 0.5f));
            for (size_t at = first[word]; at < first[word + 1]; at++) {
                float times = index[at].times;
                score[index[at].document] += weight * times * 2.2f / (times + 1.2f);
            }
        }
        for (int shown = 0; shown < SHOWN; shown++) {
            uint32_t document = best(score);
            score[document] = 0;
            for (uint32_t at = 0; at < LENGTH; at++) {
                checksum += text[(size_t)document * LENGTH + at];
            }
        }
    }
    printf("%llu\n", (unsigned long long)checksum);
    return EXIT_SUCCESS;
}
