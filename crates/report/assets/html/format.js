// Numbers as the report in the terminal writes them.
const scaled = (value, unit) => `${value < 9.95 ? value.toFixed(1) : value.toFixed(0)} ${unit}`;

function duration(ns) {
    if (ns < 1e3) return `${ns.toFixed(0)} ns`;
    if (ns < 1e6) return scaled(ns / 1e3, 'us');
    if (ns < 1e9) return scaled(ns / 1e6, 'ms');
    return scaled(ns / 1e9, 's');
}

function bytes(size) {
    if (size < 1024) return `${size} B`;
    if (size < 1024 ** 2) return scaled(size / 1024, 'KiB');
    if (size < 1024 ** 3) return scaled(size / 1024 ** 2, 'MiB');
    return scaled(size / 1024 ** 3, 'GiB');
}

const count = number => Math.round(number).toLocaleString('en-US');

/** Steps of 1, 2 or 5 times a power of ten, about `wanted` of them in a range. */
function niceStep(range, wanted) {
    const rough = range / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find(factor => factor * power >= rough);
}

/** Sizes have steps of powers of two. */
const niceBytes = (range, wanted) => 2 ** Math.ceil(Math.log2(range / Math.max(1, wanted)));

/** A moment in seconds, with as many digits as tell it from one `step` later. */
function seconds(value, step) {
    const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
    return value.toFixed(digits);
}
