// Where the program waited: call paths as a tree, outermost function on top.
const FLAME_ROW = 21, LEAST_WIDTH = 3;
const flame = element('flame');
let flameRoot = null, flameTop = null, weight = 'stall_ns';

function makeTree() {
    const node = (name, place, parent) => ({ name, place, parent, stall_ns: 0, swap_ins: 0, children: new Map(), paths: [] });
    const root = node('all swap-ins', null, null);
    model.paths.forEach((path, number) => {
        let at = root;
        const add = () => {
            at.stall_ns += path.stall_ns;
            at.swap_ins += path.swap_ins;
            at.paths.push(number);
        };
        add();
        if (path.frames.length === 0) at = child(at, -1, { name: '(call path unknown)', place: null });
        for (const frame of path.frames) {
            at = child(at, frame, model.frames[frame]);
            add();
        }
        if (path.frames.length === 0) add();
    });
    function child(parent, key, { name, place }) {
        if (!parent.children.has(key)) parent.children.set(key, node(name, place, parent));
        return parent.children.get(key);
    }
    return root;
}

/** The same function has the same colour. */
function flameColour(name) {
    let hash = 0;
    for (const character of name) hash = (hash * 31 + character.codePointAt(0)) >>> 0;
    return `hsl(${18 + hash % 38} ${60 + hash % 25}% ${70 + hash % 12}%)`;
}

const flameValue = node => weight === 'stall_ns' ? duration(node.stall_ns) : `${count(node.swap_ins)} swap-ins`;
const flameText = node => `${frameText(node)}: ${flameValue(node)}, ${percent(100 * node[weight] / Math.max(1, flameRoot[weight]))}`;

function drawFlame() {
    if (!flameRoot || flameRoot[weight] === 0) {
        flame.replaceChildren(line('p', model.has_paths ? 'No waiting was measured.' : 'Call paths of swap-ins were not recorded (sensor call-paths).', 'empty'));
        flame.style.height = 'auto';
        return;
    }
    const width = flame.clientWidth;
    const boxes = [];
    let depths = 0;
    const above = [];
    for (let node = flameTop.parent; node; node = node.parent) above.unshift(node);
    above.forEach((node, depth) => boxes.push(flameBox(node, depth, 0, width, true)));
    const place = (node, depth, left, room) => {
        boxes.push(flameBox(node, depth, left, room, false));
        depths = Math.max(depths, depth + 1);
        const children = [...node.children.values()].sort((a, b) => b[weight] - a[weight]);
        let x = left;
        for (const child of children) {
            const share = room * child[weight] / Math.max(1, node[weight]);
            if (share >= LEAST_WIDTH) place(child, depth + 1, x, share);
            x += share;
        }
    };
    place(flameTop, above.length, 0, width);
    flame.replaceChildren(...boxes);
    flame.style.height = `${Math.max(depths, above.length) * FLAME_ROW}px`;
    boxes[above.length].tabIndex = 0;
}

function flameBox(node, depth, left, width, wide) {
    const button = line('button', node.place ? `${node.name}  ${node.place}` : node.name);
    button.type = 'button';
    button.tabIndex = -1;
    button.setAttribute('role', 'treeitem');
    button.setAttribute('aria-label', flameText(node));
    button.setAttribute('aria-level', depth + 1);
    button.title = flameText(node);
    button.node = node;
    Object.assign(button.style, { left: `${left}px`, top: `${depth * FLAME_ROW}px`, width: `${Math.max(1, width)}px`, background: flameColour(node.name) });
    if (wide) button.classList.add('wide');
    return button;
}

/** Enlarges a function; the pictures show its swap-ins only. */
function enterFlame(node) {
    flameTop = node;
    drawFlame();
    focusFlame(node);
    if (node === flameRoot) setFilter({ paths: null, pathName: '' });
    else showPaths(node.paths, node.name);
}

/** Of these call paths, by number in the model, the pictures show the swap-ins. */
function showPaths(numbers, pathName) {
    const unknown = numbers.some(number => model.paths[number].frames.length === 0);
    setFilter({ paths: new Set(unknown ? [...numbers, NO_PATH] : numbers), pathName });
}

function focusFlame(node) {
    const button = [...flame.children].find(button => button.node === node);
    if (!button) return;
    for (const other of flame.children) other.tabIndex = -1;
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
}

flame.addEventListener('click', event => { if (event.target.node) enterFlame(event.target.node); });
const tellFlame = event => { element('flame-status').textContent = event.target.node ? flameText(event.target.node) : ''; };
flame.addEventListener('pointerover', tellFlame);
flame.addEventListener('focusin', tellFlame);
flame.addEventListener('keydown', event => {
    const node = event.target.node;
    if (!node) return;
    const largest = [...node.children.values()].sort((a, b) => b[weight] - a[weight]);
    const beside = node.parent ? [...node.parent.children.values()].sort((a, b) => b[weight] - a[weight]) : [node];
    const at = beside.indexOf(node);
    const to = { ArrowDown: largest[0], ArrowUp: node.parent, ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1] }[event.key];
    if (event.key === 'Escape') enterFlame(flameRoot);
    else if (to) focusFlame(to);
    else return;
    event.preventDefault();
});
for (const radio of document.querySelectorAll('input[name="weight"]')) {
    radio.addEventListener('change', () => { weight = radio.value; drawFlame(); });
}
