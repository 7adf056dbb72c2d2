(** Arrays that turn: counters fall by less than a round, and each stage of a ring is the one that many places before it.

    [rotate] turns the stages of an array of barriers; an index [e mod n] names the turned one where [e] falls. A ring of any number of stages is an
    instance of SyncRenumbered.v: lowered by one tile, the barriers turn by one, and of the one that turns round the phase falls, too. *)

From Coq Require Import Bool ZArith Lia List Permutation.
From Titan Require Import Expression AnyNumber Sync SyncShift SyncRenumbered.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Definition rotate (array : nat) (n d : Z) (k : key) : key :=
  if (fst k =? array)%nat && (0 <=? snd k) && (snd k <? n) then (fst k, (snd k - d) mod n) else k.

Lemma rotate_array array n d k : fst (rotate array n d k) = fst k.
Proof. unfold rotate. now destruct (_ && _). Qed.

Lemma same_round n d i j : 0 <= i < n -> 0 <= j < n -> (i - d) mod n = (j - d) mod n -> i = j.
Proof.
  intros I J E. assert (H : (i - j) mod n = 0).
  { replace (i - j) with ((i - d) - (j - d)) by lia. rewrite Zminus_mod, E, Z.sub_diag. apply Z.mod_0_l. lia. }
  apply Z.mod_divide in H as [q H]; [|lia]. assert (q = 0) by nia. lia.
Qed.

(** It is one to one. *)
Theorem rotate_one array n d k h : 0 < n -> same_key (rotate array n d k) (rotate array n d h) = same_key k h.
Proof.
  intros N. apply eq_true_iff_eq. rewrite !same_key_eq. split; [|now intros ->]. destruct k as [a i], h as [b j]. unfold rotate. cbn [fst snd].
  assert (Q : forall x y, ((x =? array)%nat && (0 <=? y) && (y <? n) = true <-> x = array /\ 0 <= y < n)).
  { intros x y. rewrite !andb_true_iff, Nat.eqb_eq, Z.leb_le, Z.ltb_lt. tauto. }
  assert (M : forall y, 0 <= y mod n < n) by (intros y; now apply Z.mod_pos_bound).
  destruct ((a =? array)%nat && (0 <=? i) && (i <? n)) eqn:A, ((b =? array)%nat && (0 <=? j) && (j <? n)) eqn:B; intros [= E F].
  - apply Q in A, B. f_equal; [easy|]. now apply (same_round n d).
  - apply Q in A. exfalso. enough (X : (b =? array)%nat && (0 <=? j) && (j <? n) = true) by congruence. apply Q. subst. split; [apply A|apply M].
  - apply Q in B. exfalso. enough (X : (a =? array)%nat && (0 <=? i) && (i <? n) = true) by congruence. apply Q. subst. split; [apply B|apply M].
  - now subst.
Qed.

(** An index that is a remainder by the number of stages names, where its counter falls by [d], the turned barrier. *)
Theorem rotate_names member P r e n d env : snd r = Binary Mod e (Constant n) -> 0 < n -> drop member P e = Some d ->
  names (rotate (fst r) n d) env (lowered member P env) r.
Proof.
  intros R N D. unfold names, key_of. rewrite R. pose proof (value_falls member P e d env D) as F.
  assert (V : forall env, value env (Binary Mod e (Constant n)) = omap (fun v => v mod n) (value env e)).
  { intros v. unfold value. cbn. destruct (eval v e); [|easy]. cbn. now replace (n =? 0) with false by (symmetry; apply Z.eqb_neq; lia). }
  rewrite !V. assert (E : value (lowered member P env) e = omap (fun v => v - d) (value env e)).
  { rewrite F. unfold value. now destruct (eval env e). }
  rewrite E. destruct (value env e) as [v| |]; [|easy..]. cbn [omap bind]. f_equal. unfold rotate. cbn [fst snd].
  pose proof (Z.mod_pos_bound v n N).
  replace ((fst r =? fst r)%nat && (0 <=? v mod n) && (v mod n <? n)) with true.
  - now rewrite Zminus_mod_idemp_l.
  - symmetry. rewrite !andb_true_iff, Nat.eqb_eq, Z.leb_le, Z.ltb_lt. lia.
Qed.

(** ** Buffers that turn *)

Lemma in_range x : forall k a, In x (range a k) <-> a <= x < a + Z.of_nat k.
Proof. induction k as [|k IH]; intros a; cbn [range In]; [lia|]. rewrite IH. lia. Qed.
Lemma in_below x n : In x (below n) <-> 0 <= x < n.
Proof. unfold below. rewrite in_range. lia. Qed.
Lemma range_distinct : forall k a, NoDup (range a k).
Proof. induction k as [|k IH]; intros a; cbn; constructor; [rewrite in_range; lia|easy]. Qed.

Lemma flat_distinct {A B} (f : A -> list B) l : NoDup l -> (forall x, In x l -> NoDup (f x)) ->
  (forall x y z, In x l -> In y l -> In z (f x) -> In z (f y) -> x = y) -> NoDup (flat_map f l).
Proof.
  intros D N H. induction l as [|x l IH]; cbn; [constructor|]. inversion D as [|y m NI D']; subst.
  assert (IH' : NoDup (flat_map f l)).
  { apply IH; [easy|intros y I; apply N; now right|]. intros y z w Y Z. apply H; now right. }
  specialize (N x (or_introl eq_refl)). revert N. assert (A' : forall z, In z (f x) -> ~ In z (flat_map f l)).
  { intros z I J. apply in_flat_map in J as (y & Y & J). apply NI. now rewrite (H x y z (or_introl eq_refl) (or_intror Y) I J). }
  induction (f x) as [|z m IHm]; intros N; [easy|]. inversion N; subst. cbn. constructor.
  - intros I. apply in_app_or in I as [I|I]; [easy|]. apply (A' z); [now left|easy].
  - apply IHm; [|easy]. intros w W. apply A'. now right.
Qed.

(** The cell of a stage, a part and a unit; and back. *)
Definition unit_of (b : buffer) (stage q u : Z) : cell := (bu_storage b, bu_offset b + (stage * bu_parts b + q) * bu_units b + u).

Lemma unit_one b stage q u stage' q' u' : 0 <= u < bu_units b -> 0 <= u' < bu_units b -> 0 <= q < bu_parts b -> 0 <= q' < bu_parts b ->
  unit_of b stage q u = unit_of b stage' q' u' -> stage = stage' /\ q = q' /\ u = u'.
Proof.
  intros U U' Q Q' [= E]. assert (A : stage * bu_parts b + q = stage' * bu_parts b + q') by nia.
  assert (u = u') by nia. assert (stage = stage') by nia. subst. repeat split; nia.
Qed.

Lemma in_cells b stage part c : In c (cells_of b stage part) <->
  exists q u, c = unit_of b stage q u /\ 0 <= u < bu_units b /\ match part with Some r => q = r | None => 0 <= q < bu_parts b end.
Proof.
  unfold cells_of. rewrite in_flat_map. split.
  - intros (q & Q & I). apply in_map_iff in I as (u & <- & U). apply in_below in U. exists q, u. split; [easy|]. split; [easy|].
    destruct part; [destruct Q as [->|[]]; easy|now apply in_below].
  - intros (q & u & -> & U & Q). exists q. split; [destruct part; [now left|now apply in_below]|]. apply in_map_iff. exists u. split; [easy|now apply in_below].
Qed.

Theorem all_cells_distinct b : NoDup (all_cells b).
Proof.
  unfold all_cells. apply flat_distinct; [apply range_distinct| |].
  - intros stage _. unfold cells_of. apply flat_distinct; [apply range_distinct| |].
    + intros q _. apply FinFun.Injective_map_NoDup; [|apply range_distinct]. intros u v [= E]. lia.
    + intros q r z Q R I J. apply in_below in Q, R. apply in_map_iff in I as (u & <- & U). apply in_map_iff in J as (v & E & V).
      apply in_below in U, V. destruct (unit_one b stage r v stage q u) as (_ & -> & _); easy.
  - intros x y z _ _ I J. apply in_cells in I as (q & u & -> & U & Q). apply in_cells in J as (r & v & E & V & R).
    destruct (unit_one b x q u y r v) as (-> & _ & _); easy.
Qed.

Section Spin.
Variable b : buffer.
Variable d : Z.
Hypothesis units : 0 < bu_units b.
Hypothesis parts : 0 < bu_parts b.
Hypothesis stages : 0 < bu_stages b.
Let size : Z := bu_parts b * bu_units b.

(** Each stage of the buffer is the one [d] places before it; other cells stay. *)
Definition spin_stages (c : cell) : cell :=
  let r := snd c - bu_offset b in
  if (fst c =? bu_storage b)%nat && (0 <=? r) && (r <? bu_stages b * size)
  then (fst c, bu_offset b + ((r / size - d) mod bu_stages b) * size + r mod size) else c.

Lemma spin_storage c : fst (spin_stages c) = fst c.
Proof. unfold spin_stages. now destruct (_ && _). Qed.

Lemma size_high : 0 < size.
Proof. unfold size. nia. Qed.

Lemma spin_unit stage q u : 0 <= stage < bu_stages b -> 0 <= q < bu_parts b -> 0 <= u < bu_units b ->
  spin_stages (unit_of b stage q u) = unit_of b ((stage - d) mod bu_stages b) q u.
Proof.
  intros S Q U. unfold spin_stages, unit_of. cbn [fst snd]. pose proof size_high as Z0. set (w := q * bu_units b + u).
  assert (W : 0 <= w < size) by (unfold w, size; nia).
  replace (bu_offset b + (stage * bu_parts b + q) * bu_units b + u - bu_offset b) with (stage * size + w) by (unfold w, size; ring).
  replace ((bu_storage b =? bu_storage b)%nat && (0 <=? stage * size + w) && (stage * size + w <? bu_stages b * size)) with true.
  2: { symmetry. rewrite !andb_true_iff, Nat.eqb_eq, Z.leb_le, Z.ltb_lt. split; [split; [easy|nia]|nia]. }
  replace ((stage * size + w) / size) with stage by (apply Z.div_unique with w; lia).
  replace ((stage * size + w) mod size) with w by (apply Z.mod_unique with stage; lia).
  f_equal. unfold w, size. ring.
Qed.

Lemma spin_cells stage part : 0 <= stage < bu_stages b -> match part with Some q => 0 <= q < bu_parts b | None => True end ->
  map spin_stages (cells_of b stage part) = cells_of b ((stage - d) mod bu_stages b) part.
Proof.
  intros S P. unfold cells_of. set (qs := match part with Some q => [q] | None => below (bu_parts b) end).
  assert (Q : forall q, In q qs -> 0 <= q < bu_parts b).
  { intros q. unfold qs. destruct part; [now intros [<-|[]]|apply in_below]. }
  clearbody qs. induction qs as [|q qs IH]; [easy|]. cbn [flat_map]. rewrite map_app. f_equal.
  - rewrite map_map. apply map_ext_in. intros u U. apply in_below in U. apply spin_unit; [easy|apply Q; now left|easy].
  - apply IH. intros r R. apply Q. now right.
Qed.

(** It is one to one, *)
Theorem spin_one c e : same_key (spin_stages c) (spin_stages e) = same_key c e.
Proof.
  pose proof size_high as Z0. apply eq_true_iff_eq. rewrite !same_key_eq. split; [|now intros ->].
  destruct c as [x i], e as [y j]. unfold spin_stages. cbn [fst snd].
  assert (Q : forall x i, ((x =? bu_storage b)%nat && (0 <=? i - bu_offset b) && (i - bu_offset b <? bu_stages b * size) = true <->
    x = bu_storage b /\ 0 <= i - bu_offset b < bu_stages b * size)).
  { intros z k. rewrite !andb_true_iff, Nat.eqb_eq, Z.leb_le, Z.ltb_lt. tauto. }
  assert (M : forall k, 0 <= (((k - bu_offset b) / size - d) mod bu_stages b) * size + (k - bu_offset b) mod size < bu_stages b * size).
  { intros k. pose proof (Z.mod_pos_bound ((k - bu_offset b) / size - d) _ stages). pose proof (Z.mod_pos_bound (k - bu_offset b) _ Z0). nia. }
  destruct ((x =? bu_storage b)%nat && (0 <=? i - bu_offset b) && (i - bu_offset b <? bu_stages b * size)) eqn:A,
    ((y =? bu_storage b)%nat && (0 <=? j - bu_offset b) && (j - bu_offset b <? bu_stages b * size)) eqn:B; intros [= E F].
  - apply Q in A, B. f_equal; [easy|]. pose proof (Z.mod_pos_bound (i - bu_offset b) _ Z0) as Mi. pose proof (Z.mod_pos_bound (j - bu_offset b) _ Z0) as Mj.
    pose proof (Z.div_mod (i - bu_offset b) size ltac:(lia)) as Di. pose proof (Z.div_mod (j - bu_offset b) size ltac:(lia)) as Dj.
    assert (E1 : ((i - bu_offset b) / size - d) mod bu_stages b = ((j - bu_offset b) / size - d) mod bu_stages b) by nia.
    assert (E2 : (i - bu_offset b) mod size = (j - bu_offset b) mod size) by nia.
    apply same_round in E1; [|split; [apply Z.div_pos; lia|apply Z.div_lt_upper_bound; lia]..]. nia.
  - apply Q in A. exfalso. enough (X : (y =? bu_storage b)%nat && (0 <=? j - bu_offset b) && (j - bu_offset b <? bu_stages b * size) = true) by congruence.
    apply Q. specialize (M i). subst. split; [apply A|]. lia.
  - apply Q in B. exfalso. enough (X : (x =? bu_storage b)%nat && (0 <=? i - bu_offset b) && (i - bu_offset b <? bu_stages b * size) = true) by congruence.
    apply Q. specialize (M j). subst. split; [apply B|]. lia.
  - now subst.
Qed.

(** the stages of the buffer are its stages again, in another order, and other buffers stay, *)
Theorem spin_permutes c : c = b \/ bu_storage c <> bu_storage b -> NoDup (all_cells c) /\ Permutation (map spin_stages (all_cells c)) (all_cells c).
Proof.
  intros H. split; [apply all_cells_distinct|]. destruct H as [->|N].
  - apply NoDup_Permutation.
    + assert (H : forall l, NoDup l -> NoDup (map spin_stages l)).
      { induction l as [|x l IH]; intros D; cbn; [constructor|]. inversion D as [|y m NI D']; subst. constructor; [|now apply IH].
        intros I. apply in_map_iff in I as (y & E & I). apply NI. enough (y = x) by now subst.
        apply same_key_eq. rewrite <- spin_one. now apply same_key_eq. }
      apply H, all_cells_distinct.
    + apply all_cells_distinct.
    + intros x. rewrite in_map_iff. unfold all_cells. split.
      * intros (y & <- & I). apply in_flat_map in I as (s & S & I). apply in_below in S. apply in_flat_map. exists ((s - d) mod bu_stages b).
        split; [apply in_below; now apply Z.mod_pos_bound|]. rewrite <- spin_cells by easy. now apply in_map.
      * intros I. apply in_flat_map in I as (s & S & I). apply in_below in S.
        assert (E : ((s + d) mod bu_stages b - d) mod bu_stages b = s).
        { rewrite Zminus_mod_idemp_l. replace (s + d - d) with s by lia. apply Z.mod_small. lia. }
        pose proof (Z.mod_pos_bound (s + d) _ stages) as M.
        rewrite <- E, <- spin_cells in I by easy. apply in_map_iff in I as (y & <- & I). exists y. split; [easy|].
        apply in_flat_map. exists ((s + d) mod bu_stages b). split; [now apply in_below|easy].
  - rewrite (map_ext_in _ (fun x => x)); [now rewrite map_id|]. intros x I. unfold all_cells in I. apply in_flat_map in I as (s & _ & I).
    apply in_cells in I as (q & u & -> & _). unfold spin_stages. cbn [fst unit_of].
    now replace (bu_storage c =? bu_storage b)%nat with false by (symmetry; now apply Nat.eqb_neq).
Qed.

(** and a stage that is a remainder by their number means, where its counter falls by [d], the turned one. *)
Theorem spin_located member P env e x a : ef_stage e = Binary Mod x (Constant (bu_stages b)) -> drop member P x = Some d ->
  (forall y, ef_part e = Some y -> keeps env (lowered member P env) y) ->
  located (lowered member P env) e b a = omap (map spin_stages) (located env e b a).
Proof.
  intros X D K. unfold located. rewrite X.
  assert (V : forall env, value env (Binary Mod x (Constant (bu_stages b))) = omap (fun v => v mod bu_stages b) (value env x)).
  { intros v. unfold value. cbn. destruct (eval v x); [|easy]. cbn. now replace (bu_stages b =? 0) with false by (symmetry; apply Z.eqb_neq; lia). }
  assert (E : value (lowered member P env) x = omap (fun v => v - d) (value env x)).
  { rewrite (value_falls member P x d env D). unfold value. now destruct (eval env x). }
  rewrite !V, E. destruct (value env x) as [v| |]; [|easy..]. cbn [omap bind].
  assert (O : optional (lowered member P env) (ef_part e) = optional env (ef_part e)).
  { unfold optional. destruct (ef_part e) as [y|]; [|easy]. now rewrite (K y eq_refl). }
  rewrite O. destruct (optional env (ef_part e)) as [part| |]; [|easy..]. cbn [bind].
  pose proof (Z.mod_pos_bound v _ stages) as M. pose proof (Z.mod_pos_bound (v - d) _ stages) as M'.
  assert (G : forall w, 0 <= w < bu_stages b -> (0 <=? w) && (w <? bu_stages b) = true) by (intros w H; rewrite andb_true_iff, Z.leb_le, Z.ltb_lt; lia).
  rewrite !G by easy. cbn [andb].
  set (q := match part with Some q => q | None => 0 end). destruct ((0 <=? q) && (q <? bu_parts b)) eqn:R; cbn [negb guard bind omap]; [|easy].
  f_equal. rewrite spin_cells; [now rewrite Zminus_mod_idemp_l|easy|]. apply andb_true_iff in R as [R1 R2]. apply Z.leb_le in R1. apply Z.ltb_lt in R2.
  unfold q in *. now destruct part.
Qed.
End Spin.

(** ** A ring that turns *)

Section Ring.
Variable n : Z.
Hypothesis stages : 0 < n.
Let b : reference := (O, Binary Mod (Name 0) (Constant n)).
Let round : expression := Binary Div (Name 0) (Constant n).

(* for t in 0 .. size: arrive at b[t % n]; wait for phase t // n of b[t % n] *)
Definition ring_agent : agent := Agent 1 0 0 [0; 0] 0 2 [].
Definition ring_program : program := Program
  [ring_agent]
  [[Loop 0 (Constant 0) (Name 1) 1];
   [Arrive b (Constant 1) (Constant 0) false false; Wait b (Binary Mod round (Constant 2)) (Some round)]]
  [Barrier 1 n true 0] [] [] [] [] (Policies false false true false false false).

Definition one_lower (_ : nat) (q : position) : position := Position (frames q) (map (fun v => v - 1) (values q)).
Definition inside_ring (a : nat) (q : position) : Prop := (exists t s, values q = [t; s]) /\
  (frames q = [(1%nat, 0%nat); (0%nat, 0%nat)] \/ frames q = [(1%nat, 1%nat); (0%nat, 0%nat)] \/ frames q = []).
(* the barrier that turns round is a phase behind *)
Definition fall_of (k : key) : Z := if (fst k =? 0)%nat && (snd k =? 0) then 1 else 0.

Lemma ring_first fuel t s : settle ring_program fuel ring_agent [(1%nat, 1%nat); (0%nat, 0%nat)] [t; s] =
  match fuel with O => Undefined | S _ => Done (Position [(1%nat, 1%nat); (0%nat, 0%nat)] [t; s]) end.
Proof. now destruct fuel. Qed.
Lemma ring_second fuel t s : settle ring_program fuel ring_agent [(1%nat, 2%nat); (0%nat, 0%nat)] [t; s] =
  match fuel with
  | S (S _) => Done (Position (if t + 1 <? s then [(1%nat, 0%nat); (0%nat, 0%nat)] else []) [t + 1; s])
  | _ => Undefined
  end.
Proof.
  destruct fuel as [|fuel]; [easy|].
  change (settle ring_program (S fuel) ring_agent [(1%nat, 2%nat); (0%nat, 0%nat)] [t; s]) with
    (settle ring_program fuel ring_agent (if t + 1 <? s then [(1%nat, 0%nat); (0%nat, 0%nat)] else [(0%nat, 1%nat)]) [t + 1; s]).
  destruct (t + 1 <? s); now destruct fuel.
Qed.

Definition at_place (t s : Z) : nat -> Z := environment ring_agent [t; s].

Lemma ring_key t s : key_of (at_place t s) b = Done (O, t mod n).
Proof. unfold key_of, value, b. cbn. now replace (n =? 0) with false by (symmetry; apply Z.eqb_neq; lia). Qed.
Lemma ring_round t s : value (at_place t s) round = Done (t / n).
Proof. unfold value, round. cbn. now replace (n =? 0) with false by (symmetry; apply Z.eqb_neq; lia). Qed.
Lemma ring_parity t s : value (at_place t s) (Binary Mod round (Constant 2)) = Done ((t / n) mod 2).
Proof. unfold value, round. cbn. now replace (n =? 0) with false by (symmetry; apply Z.eqb_neq; lia). Qed.

Lemma round_falls t : (t - 1) / n = t / n - fall_of (O, t mod n).
Proof.
  unfold fall_of. cbn [fst snd andb Nat.eqb]. pose proof (Z.div_mod t n) as D. pose proof (Z.mod_pos_bound t n stages) as M.
  destruct (Z.eqb_spec (t mod n) 0) as [E|E].
  - symmetry. apply Z.div_unique with (n - 1); lia.
  - symmetry. apply Z.div_unique with (t mod n - 1); lia.
Qed.

Lemma ring_names t s : names (rotate 0 n 1) (at_place t s) (at_place (t - 1) (s - 1)) b.
Proof.
  unfold names. rewrite !ring_key. cbn [omap]. f_equal. unfold rotate. cbn [fst snd]. pose proof (Z.mod_pos_bound t n stages).
  replace ((0 =? 0)%nat && (0 <=? t mod n) && (t mod n <? n)) with true.
  - now rewrite Zminus_mod_idemp_l.
  - symmetry. cbn [Nat.eqb andb]. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. lia.
Qed.

(** Whatever counter and bound are, and whatever else is in the state: both can be lowered by one tile, the barriers turn by one place,
    and of the one that turns round the phase falls by one. *)
Theorem ring_turns s : all_high inside_ring s -> bisimilar _ (sync_step ring_program) (sync_bad ring_program)
  (Some s) (Some (re one_lower fall_of (fun _ => lower_tile 0) (fun _ => 0) (rotate 0 n 1) (fun c => c) s)).
Proof.
  apply renumbered_bisimilar; try easy.
  - intros k. apply rotate_array.
  - intros k h. now apply rotate_one.
  - intros c t u. now apply lower_tile_one.
  - intros [|[|a]] q g o [(t & z & V) F] G; try easy; injection G as <-; unfold op_of; cbn [one_lower values]; rewrite V; cbn [map].
    fold (at_place t z). fold (at_place (t - 1) (z - 1)).
    destruct F as [-> |[-> | ->]]; cbn [frames op_at nth_error ring_program pr_blocks]; intros [= <-]; cbn [fits].
    + split; [apply ring_names|now split].
    + split; [apply ring_names|]. split.
      * intros k K. rewrite ring_key in K. injection K as <-. rewrite !ring_parity. cbn [omap].
        exists ((t / n) mod 2 - ((t - 1) / n) mod 2). split; [f_equal; lia|]. rewrite round_falls.
        set (f := fall_of (O, t mod n)). pose proof (Z.div_mod (t / n) 2) as A. pose proof (Z.div_mod (t / n - f) 2) as B.
        replace ((t / n) mod 2 - (t / n - f) mod 2 - f) with ((- ((t / n) / 2) + (t / n - f) / 2) * 2) by lia. apply Z.mod_mul. lia.
      * intros e [= <-] k K. rewrite ring_key in K. injection K as <-. rewrite !ring_round. cbn [omap]. now rewrite round_falls.
  - intros [|[|a]] q g b0 i outer [(t & z & V) F] G; try easy; injection G as <-; unfold one_lower; cbn [values map]; rewrite V.
    destruct F as [-> |[-> | ->]]; intros [= <- <- <-]; generalize local_steps_max; intros fuel; cbn [map].
    + rewrite !ring_first. now destruct fuel.
    + rewrite !ring_second. replace (t - 1 + 1 <? z - 1) with (t + 1 <? z) by (apply eq_true_iff_eq; rewrite !Z.ltb_lt; lia).
      replace (t - 1 + 1) with (t + 1 - 1) by lia. destruct fuel as [|[|fuel]]; [easy| |]; now destruct (t + 1 <? z).
  - intros [|[|a]] q g b0 i outer r [(t & z & V) F] G; try easy; injection G as <-; rewrite V.
    destruct F as [-> |[-> | ->]]; intros [= <- <- <-]; generalize local_steps_max; intros fuel.
    + rewrite ring_first. destruct fuel; [easy|]. intros [= <-]. split; cbn; eauto.
    + rewrite ring_second. destruct fuel as [|[|fuel]]; [easy| |]; destruct (t + 1 <? z); intros [= <-] || easy; split; cbn; eauto.
Qed.
End Ring.
