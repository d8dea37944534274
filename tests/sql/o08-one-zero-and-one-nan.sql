-- Both zeros are equal in every comparison, and every NaN is one value above all numbers, however it was computed.
CREATE TABLE t (id INT, x DOUBLE);
CREATE VIEW v AS SELECT id, x = 0.0 AS eq, x IN (0.0, 7.0) AS inside, CASE x WHEN 0.0 THEN 'zero' ELSE 'other' END AS w, NULLIF(x, 0.0) AS n, x * -1 < 0.0 AS lt, (x - x) > 1.0 AS nan, GREATEST(x, -0.0) AS g, CEIL(x / 2) = 0.0 AS c FROM t;
--! +t(1,'-0.0') +t(2,0.0) +t(3,-0.5)
--= (1, true, true, zero, NULL, false, false, 0.0, true) (2, true, true, zero, NULL, false, false, 0.0, true) (3, false, false, other, -0.5, false, false, 0.0, true)
--! -t(1,0.0) +t(4,'inf')
--= (2, true, true, zero, NULL, false, false, 0.0, true) (3, false, false, other, -0.5, false, false, 0.0, true) (4, false, false, other, inf, true, true, inf, false)
