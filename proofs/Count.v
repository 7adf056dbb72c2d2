(** Counting: sums over agents, single updates of functions, and how often a stage is used.

    What [Ring.v] and [Multicast.v] need of arithmetic and nothing else. *)

From Coq Require Import Arith Lia.

(** ** A function changed in one place *)

Definition upd {A : Type} (f : nat -> A) (x : nat) (v : A) : nat -> A :=
  fun y => if Nat.eq_dec x y then v else f y.

Lemma upd_same {A} (f : nat -> A) x v : upd f x v x = v.
Proof. unfold upd. destruct (Nat.eq_dec x x); congruence. Qed.

Lemma upd_other {A} (f : nat -> A) x v y : x <> y -> upd f x v y = f y.
Proof. intros. unfold upd. destruct (Nat.eq_dec x y); congruence. Qed.

(** ** Sums over [0 .. n-1] *)

Fixpoint sum (n : nat) (f : nat -> nat) : nat :=
  match n with 0 => 0 | S m => sum m f + f m end.

Lemma sum_ext n f g : (forall i, i < n -> f i = g i) -> sum n f = sum n g.
Proof. induction n; simpl; intros H; [easy|]. rewrite IHn, H by auto with arith. easy. Qed.

(** If two functions differ in one place, so do their sums. *)
Lemma sum_change n f g x : x < n -> (forall i, i <> x -> g i = f i) ->
  sum n g + f x = sum n f + g x.
Proof.
  induction n; intros Hx H; [lia|]. simpl. destruct (Nat.eq_dec x n) as [->|Hn].
  - rewrite (sum_ext n g f); [lia|]. intros; apply H; lia.
  - specialize (IHn ltac:(lia) H). rewrite (H n) by lia. lia.
Qed.

Lemma sum_low n f m : (forall i, i < n -> m <= f i) -> n * m <= sum n f.
Proof.
  induction n; simpl; intros H; [lia|]. pose proof (H n ltac:(lia)).
  specialize (IHn ltac:(auto with arith)). lia.
Qed.

Lemma sum_high n f m : (forall i, i < n -> f i <= m) -> sum n f <= n * m.
Proof.
  induction n; simpl; intros H; [lia|]. pose proof (H n ltac:(lia)).
  specialize (IHn ltac:(auto with arith)). lia.
Qed.

Lemma sum_one n f x : x < n -> f x <= sum n f.
Proof.
  induction n; intros Hx; [lia|]. simpl. destruct (Nat.eq_dec x n) as [->|]; [lia|].
  specialize (IHn ltac:(lia)). lia.
Qed.

Lemma sum_zero n f : (forall i, i < n -> f i = 0) -> sum n f = 0.
Proof. intros H. pose proof (sum_high n f 0). enough (sum n f <= n * 0) by lia.
  apply H0. intros i Hi. rewrite (H i Hi). lia. Qed.

(** A sum at its greatest value: every term is. *)
Lemma sum_full n f m : (forall i, i < n -> f i <= m) -> sum n f = n * m ->
  forall i, i < n -> f i = m.
Proof.
  induction n; intros H Hs i Hi; [lia|]. simpl in Hs.
  pose proof (H n ltac:(lia)). pose proof (sum_high n f m ltac:(auto with arith)).
  destruct (Nat.eq_dec i n) as [->|]; [lia|].
  apply IHn; [auto with arith|lia|lia].
Qed.

Lemma sum_behind n f m : sum n f < n * S m -> exists i, i < n /\ f i <= m.
Proof.
  induction n; intros H; [lia|]. simpl in H.
  destruct (le_lt_dec (f n) m) as [Hm|Hm]; [exists n; lia|].
  destruct IHn as [i [Hi Hf]]; [lia|]. exists i. lia.
Qed.

(** A least one among finitely many. *)
Lemma least n f : n > 0 -> exists i, i < n /\ forall j, j < n -> f i <= f j.
Proof.
  induction n; intros Hn; [lia|]. destruct n as [|m].
  - exists 0. split; [lia|]. intros j Hj. replace j with 0 by lia. lia.
  - destruct IHn as [i [Hi Hl]]; [lia|]. destruct (le_lt_dec (f i) (f (S m))).
    + exists i. split; [lia|]. intros j Hj.
      destruct (Nat.eq_dec j (S m)) as [->|]; [lia|]. apply Hl; lia.
    + exists (S m). split; [lia|]. intros j Hj.
      destruct (Nat.eq_dec j (S m)) as [->|]; [lia|]. specialize (Hl j ltac:(lia)). lia.
Qed.

(** One with a decidable property, or none. *)
Lemma search n (Q : nat -> Prop) : (forall i, i < n -> {Q i} + {~ Q i}) ->
  {i | i < n /\ Q i} + {forall i, i < n -> ~ Q i}.
Proof.
  induction n; intros dec; [right; intros; lia|].
  destruct (dec n ltac:(lia)) as [q|q]; [left; exists n; auto|].
  destruct IHn as [[i [Hi HQ]]|Hno]; [auto with arith|left; exists i; auto with arith|].
  right. intros i Hi. destruct (Nat.eq_dec i n) as [->|]; [easy|]. apply Hno; lia.
Qed.

(** ** Uses of a stage: [use D t g] counts the tiles below [t] that stand in stage [g] *)

Section Use.
Variable D : nat.
Hypothesis D_pos : D >= 1.

Fixpoint use (t g : nat) : nat :=
  match t with
  | 0 => 0
  | S s => use s g + (if Nat.eq_dec (s mod D) g then 1 else 0)
  end.

Lemma use_next t g : use (S t) g = use t g + (if Nat.eq_dec (t mod D) g then 1 else 0).
Proof. reflexivity. Qed.

Lemma divmod t : t = D * (t / D) + t mod D /\ t mod D < D.
Proof. split; [apply Nat.div_mod; lia|apply Nat.mod_upper_bound; lia]. Qed.

Lemma divmod_unique q r : r < D -> (D * q + r) / D = q /\ (D * q + r) mod D = r.
Proof.
  intros. split.
  - symmetry. apply (Nat.div_unique _ _ q r); lia.
  - symmetry. apply (Nat.mod_unique _ _ q r); lia.
Qed.

Lemma divmod_next t :
  (t mod D + 1 < D /\ S t / D = t / D /\ S t mod D = t mod D + 1) \/
  (t mod D + 1 = D /\ S t / D = t / D + 1 /\ S t mod D = 0).
Proof.
  destruct (divmod t) as [E B]. destruct (Nat.eq_dec (t mod D + 1) D) as [W|W].
  - right. assert (F : S t = D * (t / D + 1) + 0) by nia.
    destruct (divmod_unique (t / D + 1) 0 D_pos) as [H1 H2]. rewrite F at 1 2. split; [easy|].
    split; [exact H1|exact H2].
  - left. assert (F : S t = D * (t / D) + (t mod D + 1)) by lia.
    destruct (divmod_unique (t / D) (t mod D + 1)) as [H1 H2]; [lia|].
    rewrite F at 1 2. split; [lia|]. split; [exact H1|exact H2].
Qed.

Lemma use_closed t g : g < D -> use t g = t / D + (if lt_dec g (t mod D) then 1 else 0).
Proof.
  intros Hg. induction t as [|t IH].
  - pose proof (Nat.div_0_l D ltac:(lia)). pose proof (Nat.mod_0_l D ltac:(lia)).
    cbn [use]. destruct (lt_dec g (0 mod D)); lia.
  - rewrite use_next, IH. destruct (divmod_next t) as [[H1 [H2 H3]]|[H1 [H2 H3]]];
      destruct (Nat.eq_dec (t mod D) g), (lt_dec g (t mod D)), (lt_dec g (S t mod D)); lia.
Qed.

Lemma use_here t : use t (t mod D) = t / D.
Proof.
  rewrite use_closed by apply divmod. destruct (lt_dec (t mod D) (t mod D)); lia.
Qed.

Lemma use_mono s t g : s <= t -> use s g <= use t g.
Proof using D. clear D_pos. intros H. induction H as [|t H IH]; [easy|]. cbn [use]. lia. Qed.

Lemma use_turn t g : g < D -> use (t + D) g = use t g + 1.
Proof.
  intros Hg. rewrite !use_closed by easy. destruct (divmod t) as [E B].
  assert (F : t + D = D * (t / D + 1) + t mod D) by nia.
  destruct (divmod_unique (t / D + 1) (t mod D) B) as [H1 H2].
  rewrite <- F in H1, H2.
  destruct (lt_dec g ((t + D) mod D)), (lt_dec g (t mod D)); lia.
Qed.

(** Who is past tile [t] has used its stage once more than [t / D] times; and conversely. *)
Lemma use_past s t : t < s -> t / D + 1 <= use s (t mod D).
Proof.
  intros H. apply Nat.le_trans with (use (S t) (t mod D)).
  - rewrite use_next, use_here. destruct (Nat.eq_dec (t mod D) (t mod D)); lia.
  - apply use_mono. lia.
Qed.

Lemma use_before s t : s <= t -> use s (t mod D) <= t / D.
Proof. intros H. rewrite <- (use_here t). now apply use_mono. Qed.

End Use.
