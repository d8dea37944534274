-- S29, datafusion#3520; feldera#2316: integer overflow wraps: a + 1, SUM(bigint).
CREATE TABLE t (a bigint);
CREATE VIEW v AS select sum(a) s from t;
--! +t(9223372036854775806)
--= (9223372036854775806)
--! +t(1)
--= (9223372036854775807)
--! +t(1)
--= error: does not fit Int64
--! -t(1)
--= (9223372036854775807)
