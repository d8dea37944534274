-- AVG of a value that the query casts: the cast was left out, so a decimal's average lost its point.
CREATE TABLE t (d DECIMAL(10,2), b BIGINT, s TEXT);
CREATE VIEW v AS SELECT AVG(CAST(d AS DOUBLE)) AS m, AVG(CAST(b AS DECIMAL(10,1))) AS n, AVG(CAST(s AS DOUBLE)) AS o, VAR_POP(CAST(d AS DOUBLE)) AS p FROM t;
--! +t(1.50,1,'2.5') +t(2.50,2,'3.5')
--= (2.0, 1.50000, 3.0, 0.25)
--! -t(2.50,2,'3.5')
--= (1.5, 1.00000, 2.5, 0.0)
