//! Names: defined once, above their use.

use super::fault;

#[test]
fn names() {
    let source =
        |name: &str| format!("CREATE SOURCE {name} (a BIGINT, b TEXT) WITH (kafka = 'h:1', topic = '{name}');\n");
    let t = source("t");
    #[rustfmt::skip] // columns: what follows the source t, the fault
    let cases = [
        ("CREATE SINK s FROM tt WITH (delta = 'x')",
         "2:20: there is no source or view `tt`; did you mean `t`?"),
        ("CREATE VIEW v AS SELECT * FROM auctions",
         "2:32: there is no source or view `auctions`"),
        ("CREATE VIEW v AS SELECT * FROM \"T\"",
         "2:32: there is no source or view `T`; did you mean `t`?"),
        ("CREATE VIEW v AS SELECT * FROM public.t",
         "2:32: `public.t` has several parts; sources and views have one name, without a schema"),
        ("CREATE VIEW v AS SELECT * FROM 'tt'",
         "2:18: there is no source or view `tt`; did you mean `t`?"),
        ("CREATE VIEW v AS SELECT * FROM 'x'.'y'",
         "2:18: `'x'.'y'` has several parts; sources and views have one name, without a schema"),
        ("CREATE VIEW a.v AS SELECT * FROM t",
         "2:14: names have one part here: no schema, no catalog before a dot"),
        ("CREATE VIEW t AS SELECT 1",
         "2:13: `t` is taken by the source at 1:15; give this view another name"),
        ("CREATE VIEW v AS SELECT 1; CREATE SINK V FROM t WITH (delta = 'x')",
         "2:40: `v` is taken by the view at 2:13; give this sink another name"),
        ("CREATE VIEW v AS SELECT * FROM v",
         "2:32: view `v` reads itself; WITH RECURSIVE in its query may do that"),
        ("CREATE VIEW v AS SELECT * FROM w; CREATE VIEW w AS SELECT * FROM t",
         "2:32: view `w` is defined below, at 2:47; move it above this one"),
        ("CREATE VIEW v AS SELECT * FROM w;\nCREATE VIEW w AS SELECT * FROM x, t;\nCREATE VIEW x AS SELECT * FROM v",
         "2:32: views read each other in a circle: v reads w reads x reads v; WITH RECURSIVE may"),
        ("CREATE VIEW v AS SELECT * FROM u; CREATE SOURCE u (a INT) WITH (kafka = 'h:1', topic = 'u')",
         "2:32: source `u` is defined below, at 2:49; move it above this view"),
        ("CREATE SINK s FROM v WITH (delta = 'x'); CREATE VIEW v AS SELECT * FROM t",
         "2:20: `v` is defined below, at 2:54; move it above this sink"),
        ("CREATE SINK s FROM t WITH (delta = 'x'); CREATE VIEW v AS SELECT * FROM s",
         "2:73: `s` is a sink; read what it writes, `t`"),
        ("CREATE SINK s FROM t WITH (delta = 'x'); CREATE SINK r FROM s WITH (delta = 'y')",
         "2:61: `s` is a sink; a sink writes a view or a source"),
        ("CREATE SINK s FROM t WITH (delta = 'x', key = 'aa')",
         "2:47: source `t` has no column `aa`; did you mean `a`?"),
        ("CREATE SINK s FROM t WITH (delta = 'x', partition_by = 'a, day')",
         "2:56: source `t` has no column `day`"),
        ("CREATE SINK s FROM t WITH (kafka = 'h', topic = 'x', key = 'c')",
         "2:60: source `t` has no column `c`"),
        ("CREATE SINK s FROM t WITH (delta = './x/'); CREATE SINK r FROM t WITH (delta = 'x')",
         "2:80: sink `s` writes to `x` already; give it another place"),
        ("CREATE SINK s FROM t WITH (kafka = 'h:1', topic = 'x'); CREATE SINK r FROM t WITH (kafka = 'h:1', topic = 'x')",
         "2:107: sink `s` writes to `x` already; give it another place"),
        ("CREATE SINK s FROM t WITH (kafka = 'h:1', topic = 't')",
         "2:51: topic `t` is a source of this pipeline; it would never end"),
        ("SET dead_letters = 'x'; CREATE SINK s FROM t WITH (delta = './x')",
         "2:20: sink `s` writes to `x` already; give it another place"),
        ("SET dead_letters = 'x'; CREATE VIEW dead_letters AS SELECT 1; CREATE SINK s FROM t WITH (delta = 'y')",
         "2:37: `dead_letters` is taken by the sink at 2:5; give this view another name"),
        ("SET dead_letters = 'x'; CREATE VIEW v AS SELECT * FROM dead_letters; CREATE SINK s FROM v WITH (delta = 'y')",
         "2:56: `dead_letters` comes of the views, so none reads it; ask `lakeward query`"),
        ("SET dead_letters = 'x'",
         "2:1: a pipeline writes something: CREATE SINK name FROM view WITH (delta = './folder')"),
        ("CREATE VIEW v AS SELECT * FROM t",
         "2:1: a pipeline writes something: CREATE SINK name FROM view WITH (delta = './folder')"),
    ];
    for (text, expected) in cases {
        assert_eq!(fault(&format!("{t}{text}")), expected, "{text}");
    }
    let nothing = "1:1: a pipeline reads something: CREATE SOURCE name (columns) WITH (kafka = .., topic = ..)";
    for empty in ["", "  \n", "-- only words\n;;"] {
        assert_eq!(fault(empty), nothing);
    }
}
