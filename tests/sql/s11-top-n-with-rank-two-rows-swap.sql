-- S11, apache/flink#16284 (FLINK-23142): top-n with rank: two rows swap places, events for one key in the wrong order delete one.
CREATE TABLE t (k TEXT,s int);
CREATE VIEW v AS select k,s,rn from (select k,s,row_number() over(order by s desc,k) rn from t) z where rn<=2;
--! +t('a',19) +t('b',16) +t('c',11)
--= (a, 19, 1) (b, 16, 2)
--! -t('c',11) +t('c',18)
--= (a, 19, 1) (c, 18, 2)
--! -t('a',19) +t('a',15)
--= (b, 16, 2) (c, 18, 1)
