// A tree of objects, walked over and over.
final class Tree {
    private final Tree left;
    private final Tree right;
    private final long value;

    private Tree(int depth) {
        value = depth;
        left = depth == 0 ? null : new Tree(depth - 1);
        right = depth == 0 ? null : new Tree(depth - 1);
    }

    private long sum() {
        return value + (left == null ? 0 : left.sum()) + (right == null ? 0 : right.sum());
    }

    public static void main(String[] arguments) {
        Tree tree = new Tree(20);
        long sum = 0;
        for (int pass = 0; pass < 8; pass++) {
            sum += tree.sum();
        }
        System.out.println(sum);
    }
}
