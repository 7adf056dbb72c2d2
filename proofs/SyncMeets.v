(** Two arrivals at one named barrier of which the second fills it, whichever that is: all who wait, and both, go on. *)

From Coq Require Import Bool ZArith Lia List.
From Titan Require Import Expression Sync SyncShift SyncFrames SyncParts SyncActs.
Import ListNotations.
Open Scope Z_scope.
Opaque local_steps_max.

Section Meets.
Variable p : program.

Definition go_all (s : state) (l : list nat) : outcome state := fold (fun s o => advance p s o) s l.

(** Where an agent goes from its place in [s]. *)
Definition next_place (s : state) (o : nat) : option position :=
  match agent_of p o, nth_error (st_positions s) o with
  | Done g, Some q => match goes p g q with Done q' => Some q' | _ => None end
  | _, _ => None
  end.
Definition can_go (s : state) (o : nat) : bool := match next_place s o with Some _ => true | None => false end.
Definition listed (o : nat) (l : list nat) : bool := existsb (Nat.eqb o) l.

Lemma advance_next s o q : next_place s o = Some q -> advance p s o = Done (with_positions (set_nth o q (st_positions s)) s).
Proof.
  unfold next_place. rewrite advance_goes. destruct (agent_of p o) as [g| |]; [|easy..]. cbn [bind].
  destruct (nth_error (st_positions s) o) as [r|]; [|easy]. cbn [got bind]. destruct (goes p g r) as [r'| |]; [|easy..]. now intros [= ->].
Qed.

Lemma next_same s t o : nth_error (st_positions s) o = nth_error (st_positions t) o -> next_place s o = next_place t o.
Proof. unfold next_place. now intros ->. Qed.

(** All of a list go on, each once: in whatever order. *)
Lemma go_all_places l : forall s, apart_all l = true -> forallb (can_go s) l = true ->
  exists ps, go_all s l = Done (with_positions ps s) /\ length ps = length (st_positions s) /\
    forall i, nth_error ps i = if listed i l then next_place s i else nth_error (st_positions s) i.
Proof.
  induction l as [|o l IH]; intros s D C; cbn [go_all fold].
  - exists (st_positions s). split; [now destruct s|easy].
  - cbn in D, C. apply andb_true_iff in D as [D1 D2]. apply andb_true_iff in C as [C1 C2]. unfold can_go in C1.
    destruct (next_place s o) as [q|] eqn:N; [|easy]. rewrite (advance_next s o q N). cbn [bind].
    set (t := with_positions (set_nth o q (st_positions s)) s).
    assert (O : nth_error (st_positions s) o <> None).
    { unfold next_place in N. destruct (agent_of p o); [|easy..]. now destruct (nth_error (st_positions s) o). }
    assert (P : forall i, listed i l = true -> next_place t i = next_place s i).
    { intros i I. apply next_same. cbn. apply nth_set_other. intros ->. unfold listed in I. now rewrite I in D1. }
    destruct (IH t D2) as (ps & E & L & H).
    { apply forallb_forall. intros i I. rewrite forallb_forall in C2. specialize (C2 i I). unfold can_go in *. rewrite P; [easy|].
      apply existsb_exists. exists i. split; [easy|apply Nat.eqb_refl]. }
    exists ps. split; [exact E|]. split; [rewrite L; cbn; apply set_nth_length|].
    intros i. rewrite H. unfold listed. cbn [existsb]. destruct (Nat.eqb_spec i o) as [->|X]; cbn [orb].
    + apply negb_true_iff in D1. rewrite D1. cbn. rewrite nth_set_same by easy. now rewrite N.
    + destruct (existsb (Nat.eqb i) l) eqn:Y; [now apply P|]. cbn. now rewrite nth_set_other by congruence.
Qed.

Lemma same_places {A} (l m : list A) : length l = length m -> (forall i, nth_error l i = nth_error m i) -> l = m.
Proof.
  revert m. induction l as [|x l IH]; intros [|y m] L H; cbn in *; try easy. pose proof (H O) as X. cbn in X. injection X as ->. f_equal.
  apply IH; [lia|]. intros i. apply (H (S i)).
Qed.

Lemma go_all_same s l m : apart_all l = true -> apart_all m = true -> forallb (can_go s) l = true -> forallb (can_go s) m = true ->
  (forall i, listed i l = listed i m) -> go_all s l = go_all s m /\ exists t, go_all s l = Done t.
Proof.
  intros D D' C C' E. destruct (go_all_places l s D C) as (ps & G & L & H). destruct (go_all_places m s D' C') as (ps' & G' & L' & H').
  rewrite G, G'. replace ps' with ps; [split; [easy|eauto]|]. apply same_places; [congruence|]. intros i. now rewrite H, H', E.
Qed.

Lemma go_all_app s l m : go_all s (l ++ m) = bind (go_all s l) (fun t => go_all t m).
Proof. unfold go_all. apply fold_app. Qed.

(** Going on neither sees nor changes named barriers. *)
Lemma advance_named s o n : advance p (with_named n s) o = bind (advance p s o) (fun t => Done (with_named n t)).
Proof.
  rewrite !advance_goes. destruct (agent_of p o) as [g| |]; [|easy..]. cbn [bind]. cbn [with_named st_positions].
  destruct (nth_error (st_positions s) o) as [q|]; [|easy]. cbn [got bind]. now destruct (goes p g q).
Qed.
Lemma go_all_named l : forall s n, go_all (with_named n s) l = bind (go_all s l) (fun t => Done (with_named n t)).
Proof.
  induction l as [|o l IH]; intros s n; cbn [go_all fold]; [easy|]. rewrite advance_named.
  destruct (advance p s o) as [t| |]; cbn [bind]; [apply IH|easy..].
Qed.
(** ** An agent at a named barrier *)

Record meeting := Meeting { me_key : key; me_agent : agent; me_all : Z; me_sync : bool }.

Definition meeting_of (s : state) (a : nat) : option meeting :=
  match nth_error (st_positions s) a, env_of p s a, agent_of p a with
  | Some q, Done env, Done g =>
    match op_of p q with
    | Some (BarrierSync r threads) =>
      match key_of env r, value env threads with Done k, Done all => Some (Meeting k g all true) | _, _ => None end
    | Some (BarrierArrive r threads) =>
      match key_of env r, value env threads with Done k, Done all => Some (Meeting k g all false) | _, _ => None end
    | _ => None
    end
  | _, _, _ => None
  end.

Definition meets_at (a : nat) (m : meeting) (n : named) : outcome (named * bool) := met p a (me_agent m) (me_key m) (me_all m) (me_sync m) n.

Lemma meeting_execute s a m n : meeting_of s a = Some m -> find same_key (me_key m) (st_named s) = Some n ->
  execute p s a = bind (meets_at a m n) (fun x =>
    let u := with_named (put same_key (me_key m) (fst x) (st_named s)) s in
    if snd x then go_all u (map Z.to_nat (na_waiting n) ++ [a]) else go_all u (if me_sync m then [] else [a])).
Proof.
  unfold meeting_of. destruct (nth_error (st_positions s) a) as [q|] eqn:Q; [|easy]. destruct (env_of p s a) as [env| |] eqn:E; try easy.
  destruct (agent_of p a) as [g| |] eqn:G; try easy. destruct (op_of p q) as [o|] eqn:O; [|easy].
  assert (F : forall (l : list Z) (u : state), fold (fun s other => advance p s (Z.to_nat other)) u l = go_all u (map Z.to_nat l)).
  { induction l as [|x l IH]; intros u; cbn; [easy|]. destruct (advance p u (Z.to_nat x)); cbn; [apply IH|easy..]. }
  assert (ZA : forall u : state, go_all u [a] = advance p u a) by (intros u; cbn; now destruct (advance p u a)).
  assert (H : forall r threads (sync : bool) k all, o = (if sync then BarrierSync r threads else BarrierArrive r threads) -> key_of env r = Done k -> value env threads = Done all ->
    find same_key k (st_named s) = Some n -> execute p s a = bind (met p a g k all sync n) (fun x =>
    let u := with_named (put same_key k (fst x) (st_named s)) s in
    if snd x then go_all u (map Z.to_nat (na_waiting n) ++ [a]) else go_all u (if sync then [] else [a]))).
  { intros r threads sync k all -> K V N. transitivity (meet_on p s a env r threads sync).
    - unfold execute. rewrite Q. cbn [got bind]. rewrite E. cbn [bind]. rewrite O. cbn [got bind]. unfold meet_on.
      destruct sync; [destruct (meet p s a env r threads true) as [[u []]| |]; reflexivity|destruct (meet p s a env r threads false) as [[u []]| |]; reflexivity].
    - rewrite (meet_met p s a env r threads sync g k all n) by easy. destruct (met p a g k all sync n) as [[x f]| |]; cbn [bind fst snd]; [|easy..].
      cbv zeta. destruct f; [|destruct sync; [easy|now rewrite ZA]]. rewrite go_all_app, F. destruct (go_all _ (map Z.to_nat (na_waiting n))); cbn [bind]; [now rewrite ZA|easy..]. }
  destruct o; try easy; destruct (key_of env barrier) as [k| |] eqn:K; try easy; destruct (value env threads) as [all| |] eqn:V; try easy;
    intros [= <-] N; cbn [me_key me_all me_sync me_agent] in *; unfold meets_at; cbn [me_key me_all me_sync me_agent].
  - now apply (H barrier threads true k all).
  - now apply (H barrier threads false k all).
Qed.

(** The steps of the table: both are one short of filling it, and the second fills it. *)
Definition fill_together (s : state) (a b : nat) : bool :=
  match meeting_of s a, meeting_of s b with
  | Some m, Some m' =>
    match find same_key (me_key m) (st_named s) with
    | Some n =>
      match meets_at a m n, meets_at b m' n with
      | Done (x, false), Done (y, false) =>
        match meets_at b m' x, meets_at a m y with
        | Done (z, true), Done (z', true) =>
          let first := (if me_sync m then [] else [a]) ++ map Z.to_nat (na_waiting x) ++ [b] in
          let second := (if me_sync m' then [] else [b]) ++ map Z.to_nat (na_waiting y) ++ [a] in
          negb (a =? b)%nat && same_key (me_key m) (me_key m') && (if part_dec (PNamed (Some z)) (PNamed (Some z')) then true else false)
          && apart_all first && apart_all second && forallb (can_go s) first && forallb (can_go s) second
          && forallb (fun i => listed i second) first && forallb (fun i => listed i first) second
        | _, _ => false
        end
      | _, _ => false
      end
    | None => false
    end
  | _, _ => false
  end.

Lemma meeting_kept s t a : nth_error (st_positions s) a = nth_error (st_positions t) a -> meeting_of t a = meeting_of s a.
Proof. intros P. unfold meeting_of, env_of. now rewrite <- P. Qed.

Lemma put_over {V} k (v w : V) l : put same_key k v (put same_key k w l) = put same_key k v l.
Proof.
  induction l as [|[h x] l IH]; cbn; [now rewrite same_key_refl|]. destruct (same_key k h) eqn:E; cbn; [now rewrite same_key_refl|].
  now rewrite E, IH.
Qed.

(** One order of the two. *)
Lemma first_then s a b m m' n x z : a <> b -> meeting_of s a = Some m -> meeting_of s b = Some m' -> me_key m = me_key m' ->
  find same_key (me_key m) (st_named s) = Some n -> meets_at a m n = Done (x, false) -> meets_at b m' x = Done (z, true) ->
  forallb (can_go s) (if me_sync m then [] else [a]) = true ->
  exists t, execute p s a = Done t /\ execute p t b =
    bind (go_all s ((if me_sync m then [] else [a]) ++ map Z.to_nat (na_waiting x) ++ [b]))
      (fun v => Done (with_named (put same_key (me_key m) z (st_named s)) v)).
Proof.
  intros N M M' K F X Z C. set (own := if me_sync m then [] else [a]) in *.
  assert (D : apart_all own = true) by (unfold own; now destruct (me_sync m)).
  destruct (go_all_places own s D C) as (ps & G & L & H).
  assert (G' : go_all (with_named (put same_key (me_key m) x (st_named s)) s) own =
    Done (with_named (put same_key (me_key m) x (st_named s)) (with_positions ps s))) by now rewrite go_all_named, G.
  exists (with_named (put same_key (me_key m) x (st_named s)) (with_positions ps s)). split.
  { rewrite (meeting_execute s a m n M F), X. cbn [bind fst snd]. cbv zeta. fold own. exact G'. }
  set (t := with_named _ (with_positions ps s)).
  assert (P : nth_error (st_positions s) b = nth_error (st_positions t) b).
  { cbn. rewrite H. unfold own. destruct (me_sync m); [easy|]. unfold listed. cbn. destruct (Nat.eqb_spec b a); [congruence|easy]. }
  assert (F' : find same_key (me_key m') (st_named t) = Some x) by (cbn; rewrite <- K; apply find_put_same).
  rewrite (meeting_execute t b m' x); [|now rewrite (meeting_kept s t b P)|exact F'].
  rewrite Z. cbn [bind fst snd]. cbv zeta. rewrite go_all_named. cbn [t with_named st_named]. rewrite <- K, put_over.
  rewrite (go_all_app s own), G. cbn [bind].
  transitivity (bind (go_all (with_named (put same_key (me_key m) x (st_named s)) (with_positions ps s)) (map Z.to_nat (na_waiting x) ++ [b]))
    (fun v => Done (with_named (put same_key (me_key m) z (st_named s)) v))); [reflexivity|].
  rewrite go_all_named. now destruct (go_all (with_positions ps s) (map Z.to_nat (na_waiting x) ++ [b])).
Qed.

Lemma fill_either s a b : fill_together s a b = true ->
  exists t u v, execute p s a = Done t /\ execute p s b = Done u /\ execute p t b = Done v /\ execute p u a = Done v.
Proof.
  unfold fill_together. destruct (meeting_of s a) as [m|] eqn:M; [|easy]. destruct (meeting_of s b) as [m'|] eqn:M'; [|easy].
  destruct (find same_key (me_key m) (st_named s)) as [n|] eqn:F; [|easy].
  destruct (meets_at a m n) as [[x []]| |] eqn:X; try easy. destruct (meets_at b m' n) as [[y []]| |] eqn:Y; try easy.
  destruct (meets_at b m' x) as [[z []]| |] eqn:Z; try easy. destruct (meets_at a m y) as [[z' []]| |] eqn:Z'; try easy.
  cbv zeta. rewrite !andb_true_iff. intros [[[[[[[[N K] E] D] D'] C] C'] S] S']. apply negb_true_iff, Nat.eqb_neq in N.
  apply same_key_eq in K. destruct (part_dec _ _) as [[= <-]|]; [|easy]. clear E.
  set (first := (if me_sync m then [] else [a]) ++ map Z.to_nat (na_waiting x) ++ [b]) in *.
  set (second := (if me_sync m' then [] else [b]) ++ map Z.to_nat (na_waiting y) ++ [a]) in *.
  assert (CA : forallb (can_go s) (if me_sync m then [] else [a]) = true) by (unfold first in C; rewrite forallb_app in C; now apply andb_true_iff in C).
  assert (CB : forallb (can_go s) (if me_sync m' then [] else [b]) = true) by (unfold second in C'; rewrite forallb_app in C'; now apply andb_true_iff in C').
  destruct (first_then s a b m m' n x z N M M' K F X Z CA) as (t & T & TV).
  destruct (first_then s b a m' m n y z (not_eq_sym N) M' M (eq_sym K)) as (u & U & UV); try easy; [now rewrite <- K|].
  fold first in TV. fold second in UV.
  assert (Q : forall i, listed i first = listed i second).
  { assert (Q : forall l l' i, forallb (fun i => listed i l') l = true -> listed i l = true -> listed i l' = true).
    { intros l l' i A B. rewrite forallb_forall in A. apply existsb_exists in B as (j & J & B). apply Nat.eqb_eq in B. subst j. now apply A. }
    intros i. destruct (listed i first) eqn:A, (listed i second) eqn:B; try easy.
    - now rewrite (Q first second i S A) in B.
    - now rewrite (Q second first i S' B) in A. }
  destruct (go_all_same s first second D D' C C' Q) as [G (w & W)].
  exists t, u, (with_named (put same_key (me_key m) z (st_named s)) w). split; [easy|]. split; [easy|].
  rewrite TV, UV, <- G, W, <- K. easy.
Qed.
End Meets.
