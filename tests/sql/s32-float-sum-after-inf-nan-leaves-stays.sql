-- S32, materialize#8492, #9368, #14695: float SUM after inf/NaN leaves stays NaN, or big values wrap.
CREATE TABLE t (x double);
CREATE VIEW v AS select sum(x) s,count(*) n from t;
--! +t(1.5) +t('inf')
--= (inf, 2)
--! +t('-inf')
--= (NaN, 3)
--! -t('inf') -t('-inf')
--= (1.5, 1)
--! +t('nan')
--= (NaN, 2)
--! -t('nan')
--= (1.5, 1)
--! -t(1.5) +t(1e308) +t(1e308)
--= (inf, 2)
